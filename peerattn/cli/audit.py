"""``peerattn audit``: try to find a leak in a model, a panel and a split."""

from peerattn import evaluation
from peerattn.cli.commands import Audit
from peerattn.cli.output import announce, report_line, working
from peerattn.cli.panels import take_model, take_panel, take_split


def run(options: Audit) -> None:
    """Audit, print."""
    panel = take_panel(options)
    task = options.task or "forecast"
    title, model = take_model(options, panel)
    cv = take_split(panel, options)
    announce(options, str(panel))
    with working(options, f"auditing {title}: five to ten fits"):
        found = evaluation.audit(model, panel, cv=cv, task=task, random_state=options.seed or 0)
    verdict = "No claim was refuted."
    if not found.passed:
        verdict = f"Refuted: {'; '.join(found.refuted)}."
    result = {"model": title, "passed": found.passed, "refuted": found.refuted, "lines": found.to_frame()}
    report_line(options, f"{found}\n\n{verdict}", result)
