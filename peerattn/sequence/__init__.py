"""Sequence models on the same transformer core as the panel models: text, images, graphs, time series."""

from peerattn.sequence.anomaly import AttentionAnomalyDetector
from peerattn.sequence.attention_map import AttentionMap
from peerattn.sequence.base import SavedEstimator, SequenceEstimator
from peerattn.sequence.forecasting import AttentionForecaster
from peerattn.sequence.graph import GraphAttentionClassifier
from peerattn.sequence.language_model import LanguageModel
from peerattn.sequence.masked_language_model import MaskedLanguageModel
from peerattn.sequence.published import load_bert, load_gpt2
from peerattn.sequence.published_tokenizers import ByteLevelTokenizer, WordPieceTokenizer
from peerattn.sequence.text_classifier import TextClassifier
from peerattn.sequence.tokenizers import BytePairTokenizer, CharacterTokenizer, Tokenizer, WordTokenizer, check_texts
from peerattn.sequence.translator import Translator
from peerattn.sequence.vision import VisionTransformerClassifier

__all__ = [
    "AttentionAnomalyDetector", "AttentionForecaster", "AttentionMap", "ByteLevelTokenizer", "BytePairTokenizer",
    "CharacterTokenizer", "GraphAttentionClassifier", "LanguageModel", "MaskedLanguageModel", "SavedEstimator",
    "SequenceEstimator", "TextClassifier", "Tokenizer", "Translator", "VisionTransformerClassifier", "WordPieceTokenizer",
    "WordTokenizer", "check_texts", "load_bert", "load_gpt2",
]  # fmt: skip
