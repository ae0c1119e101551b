# ruff: noqa: RUF001 (typographic quotes, dashes and Chinese punctuation are meant)
"""The words of a verdict and of what led to it, in English and in Chinese.

`{What}` is `{what}` at the start of a sentence.
"""

WORDS: dict[str, tuple[str, str]] = {
    # The answer
    "verdict": ("Verdict", "结论"),
    "recommended": ("Recommended", "推荐替换"),
    "needs a closer look": ("Needs a closer look", "需要进一步查看"),
    "not recommended": ("Not recommended", "不推荐替换"),
    "undecided": ("Undecided", "尚无定论"),
    "no_verdict": ("No comparison", "未作比较"),
    "head_recommended": ("{candidate} may replace {baseline}.", "{candidate} 可以替换 {baseline}。"),
    "head_needs a closer look": (
        "Look closer before {candidate} replaces {baseline}.",
        "在用 {candidate} 替换 {baseline} 之前，请进一步查看。",
    ),
    "head_not recommended": ("Keep {baseline}.", "继续使用 {baseline}。"),
    "head_undecided": (
        "Not decided: {baseline} or {candidate}.",
        "{baseline} 还是 {candidate}：尚不能决定。",
    ),
    "entities_recommended": (
        "For entities alone, {candidate} may replace {baseline}.",
        "仅就实体而言，{candidate} 可以替换 {baseline}。",
    ),
    "entities_needs a closer look": (
        "Look closer before {candidate} replaces {baseline}, even for entities alone.",
        "即使只抽取实体，在用 {candidate} 替换 {baseline} 之前也请进一步查看。",
    ),
    "head_none": ("{count} methods over {chunks} chunks.", "{count} 种方法，{chunks} 个文本块。"),
    "head_one": ("{method} over {chunks} chunks.", "{method}：{chunks} 个文本块。"),
    "lead_gold": (
        "Scored against {gold} gold chunks. No two methods were compared, so there is no verdict.",
        "以 {gold} 个标准文本块评分。没有比较两种方法，因此没有结论。",
    ),
    "lead_no_gold": (
        "There is no gold, so nothing can be said about quality. What follows is cost, health and agreement.",
        "没有标准标注，因此无法判断质量。下面是成本、健康状况和一致性。",
    ),
    "lead_facts": ("Compared with {baseline}: {facts}.", "与 {baseline} 相比：{facts}。"),
    "lead_obstacles": ("{facts}.", "{facts}。"),
    "lead_open": (
        "{chunks} gold chunks leave it open. {needed}. So far: {facts}.",
        "{chunks} 个标准文本块还不能定论。{needed}。目前：{facts}。",
    ),
    "change_falls": ("{what} falls by {points} points to {score}", "{what}下降 {points} 个百分点，至 {score}"),
    "change_rises": ("{what} rises by {points} points to {score}", "{what}上升 {points} 个百分点，至 {score}"),
    "change_stays": ("{what} stays at {score}", "{what}保持在 {score}"),
    "change_faster": ("{candidate} is {times} times faster", "{candidate} 的速度为其 {times} 倍"),
    "change_slower": ("{candidate} is {times} times slower", "{candidate} 的用时为其 {times} 倍"),
    "sentence": ("{told}.", "{told}。"),
    "why": ("Why", "理由"),
    # Facts
    "fact_no_gold": ("There is no gold to compare with", "没有可供比较的标准标注"),
    "fact_coverage": (
        "{method} answered {coverage} of the gold chunks, and {needed} is needed",
        "{method} 只对 {coverage} 的标准文本块给出了可用答案，至少需要 {needed}",
    ),
    "fact_undefined": ("{What} in mode {mode} cannot be worked out", "无法计算模式 {mode} 下的{what}"),
    "fact_interval": (
        "{What} changes by {worst} to {best} points with 95 % confidence (p = {p} for no difference)",
        "以 95 % 的置信度，{what}的变化在 {worst} 到 {best} 个百分点之间（无差异假设的 p = {p}）",
    ),
    "fact_speed_unknown": (
        "The speed-up is unknown, because not every method has timings: equal speed is assumed",
        "并非每种方法都有计时，因此加速比未知：按同等速度处理",
    ),
    "fact_slower": (
        "{candidate} takes {times} times as long as {baseline}; the matrix begins at equal speed",
        "{candidate} 的用时是 {baseline} 的 {times} 倍；矩阵从同等速度开始",
    ),
    "fact_speed_interval": (
        "The speed-up lies between {slow} and {fast} with 95 % confidence, judged by {shards} shards",
        "以 95 % 的置信度，加速比在 {slow} 到 {fast} 之间（依据 {shards} 个分片）",
    ),
    "fact_speed_border": (
        "At {speed} times the speed, an end of that interval, the answer would be “{action}”",
        "若速度为 {speed} 倍（该区间的一端），答案会是「{action}」",
    ),
    "fact_cell": (
        "The matrix says “{action}” to a change of {change} points at {speed} times the speed",
        "对「变化 {change} 个百分点、速度 {speed} 倍」，矩阵的答案是「{action}」",
    ),
    "fact_cell_slower": (
        "To a slower candidate with a change of {change} points the answer is “{action}”",
        "对变化 {change} 个百分点且更慢的候选方法，答案是「{action}」",
    ),
    "fact_cell_end": (
        "At an end of the interval, a change of {change} points, it is “{action}”",
        "在区间的一端（变化 {change} 个百分点），答案是「{action}」",
    ),
    "fact_above_minimum": (
        "{What} drops by {drop} points; less than {limit} is needed",
        "{what}下降 {drop} 个百分点；必须低于 {limit}",
    ),
    "fact_above_recommended": (
        "{What} drops by {drop} points; less than {limit} is recommended",
        "{what}下降 {drop} 个百分点；建议低于 {limit}",
    ),
    "fact_below_floor": (
        "{What} of {candidate}, {score}, is below the floor of {floor}",
        "{candidate} 的{what}为 {score}，低于下限 {floor}",
    ),
    "fact_floor_no_worse": (
        "{What} of {candidate}, {score}, is below the floor of {floor}, but that of {baseline} is no better",
        "{candidate} 的{what}为 {score}，低于下限 {floor}，但 {baseline} 也不更好",
    ),
    "fact_needed": ("About {chunks} gold chunks would decide", "约 {chunks} 个标准文本块即可得出定论"),
    "fact_too_close": (
        "The estimate is so close to a border that even many more may not decide",
        "估计值离边界太近，即使有更多标准文本块也未必能定论",
    ),
    "fact_enough": (
        "About {chunks} gold chunks would have been enough to decide this",
        "约 {chunks} 个标准文本块就足以得出这一结论",
    ),
    "fact_no_relations": (
        "Relations were not compared: {methods} looks for none, and its time is that of entities alone",
        "没有比较关系：{methods} 不抽取关系，其用时只含实体",
    ),
    "fact_unfinished": (
        "{method} is not finished: {rows} of {planned} chunks are extracted",
        "{method} 尚未完成：已抽取 {planned} 个文本块中的 {rows} 个",
    ),
    "fact_same_family": (
        "The gold was made by {annotator}, of the same model family as {model}: it favours {method}",
        "标准标注由 {annotator} 生成，与 {model} 属同一模型家族：它偏向 {method}",
    ),
    "fact_unknown_annotator": (
        "{pseudo} gold chunks were annotated by a model that their file does not name; such a gold favours models of "
        "the same family",
        "{pseudo} 个标准文本块由模型标注，但文件未注明是哪个模型；这样的标准偏向同一家族的模型",
    ),
    "fact_partial_gold": (
        "{partial} of {chunks} gold chunks are not annotated exhaustively: precision is a lower bound, and a method "
        "that says more is judged too harshly",
        "{chunks} 个标准文本块中有 {partial} 个标注不完整：精确率是下限，抽取更多的方法会被低估",
    ),
    "fact_mode_name": ("“{name}” is the guide’s name for {mode}", "「{name}」是指南对 {mode} 的叫法"),
    "fact_lost": (
        "Of the {relations} gold relations that {baseline} finds and {candidate} misses, {entity_missing} have an "
        "entity missing; most often: {cause}",
        "{baseline} 找到而 {candidate} 遗漏的 {relations} 条标准关系中，{entity_missing} 缺少实体；最常见：{cause}",
    ),
    # What is scored
    "score_entity": ("entity F1", "实体 F1 "),
    "score_relation": ("relation F1", "关系 F1 "),
    "score_faithfulness": ("faithfulness", "忠实度"),
    "score_answer_relevance": ("answer relevance", "答案相关性"),
    "score_context_recall": ("context recall", "上下文召回率"),
    "score_context_precision": ("context precision", "上下文精确率"),
    "score_ragas": ("RAGAS score", "RAGAS 分数"),
    "use": ("use", "可替换"),
    "look": ("look", "细看"),
    "keep": ("keep", "不替换"),
    # Tiles and the matrix
    "tile_speed": ("Speed", "速度"),
    "tile_change": ("{change} points", "{change} 个百分点"),
    "tile_speed_note": ("against {baseline}", "相对于 {baseline}"),
    "times_fast": ("{value}×", "{value} 倍"),
    "not_compared": ("not compared", "未比较"),
    "interval_95": ("95 % interval {between}", "95 % 区间 {between}"),
    "matrix": ("The decision matrix", "决策矩阵"),
    "matrix_note": (
        "Points of F1 lost (rows) against how many times faster the candidate is (columns). ● estimate, ○ ends of its "
        "95 % interval.",
        "行：损失的 F1 百分点；列：候选方法快多少倍。● 估计值，○ 95 % 区间的两端。",
    ),
    "matrix_slower": (
        "The candidate is slower, so it is in no column.",
        "候选方法更慢，因此不在任何一列。",
    ),
    "matrix_drop_speed": ("points lost \\ times faster", "损失百分点 \\ 加速倍数"),
    # Thresholds
    "thresholds": ("Thresholds", "阈值"),
    "threshold_score": ("Score", "指标"),
    "threshold_change": ("change, points", "变化，百分点"),
    "threshold_needed": ("drop allowed", "允许降幅"),
    "threshold_recommended": ("advised", "建议降幅"),
    "threshold_floor": ("floor", "下限"),
    "thresholds_note": (
        "✓ kept, ✕ not kept. Scores of answers by retrieval are read from rag.json in the run directory.",
        "✓ 满足，✕ 不满足。检索问答的分数读自运行目录中的 rag.json。",
    ),
    "standing_not applicable": ("n/a", "不适用"),
    "standing_undefined": ("undefined", "无定义"),
    "standing_not measured": ("not measured", "未测量"),
}
