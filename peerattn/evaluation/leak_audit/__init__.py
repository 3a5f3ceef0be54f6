"""Leak audit: what a model must not see is changed, and nothing may follow."""

from peerattn.evaluation.leak_audit.checks import AuditLine
from peerattn.evaluation.leak_audit.runner import Audit, audit

__all__ = ["Audit", "AuditLine", "audit"]
