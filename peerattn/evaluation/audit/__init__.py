"""Leak audit: what a model must not see is changed, and nothing may follow."""

from peerattn.evaluation.audit.checks import AuditLine
from peerattn.evaluation.audit.runner import Audit, audit

__all__ = ["Audit", "AuditLine", "audit"]
