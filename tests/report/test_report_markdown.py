"""The report as a comment on a pull request."""

from report_runs import HOSTILE, hostile_run, synthetic_run

from kgscale.report.figures import number
from kgscale.report.markdown import report_markdown
from kgscale.score.compare import compare_run
from kgscale.score.scorer import score_run


def test_it_tells_the_verdict_and_every_method(tmp_path):
    run = synthetic_run(tmp_path, 120)
    scores, verdict = score_run(run), None
    verdict = compare_run(run, run.config.compare)
    text = report_markdown(scores, verdict)
    assert text.startswith("### ")
    for it in scores.methods:
        assert number(it.metric("name+type").f1) in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in tables)
    assert "| RAGAS score |" in text
    assert "方法" in report_markdown(scores, verdict, "zh")
    assert "no verdict" in report_markdown(scores, None)


def test_foreign_text_stays_text(tmp_path):
    run = hostile_run(tmp_path)
    text = report_markdown(score_run(run), None)
    assert "<script>" not in text.replace("\\<", "")
    assert HOSTILE[9] not in text
    assert "@somebody" not in text
