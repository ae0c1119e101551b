# ruff: noqa: RUF001 (typographic quotes, dashes and Chinese punctuation are meant)
"""Every word of a report, in English and in Chinese; types, names and data stay as they are."""

from dataclasses import dataclass
from typing import Literal

Lang = Literal["en", "zh"]


@dataclass(frozen=True, slots=True)
class Texts:
    """The words of one language: `t("key")`, with the values that a text has places for."""

    lang: Lang

    @property
    def code(self) -> str:
        """The language, as HTML names it."""
        return "en" if self.lang == "en" else "zh-Hans"

    def __call__(self, key: str, **values: object) -> str:
        """One text; raises `KeyError` for a key that is not in the table."""
        return _TABLE[key][self.lang == "zh"].format(**values)

    def of(self, prefix: str, word: str) -> str:
        """The text of a word of the data, or the word itself where the table does not know it."""
        both = _TABLE.get(prefix + word)
        return both[self.lang == "zh"] if both else word

    def starting(self, prefix: str) -> dict[str, str]:
        """The texts whose key starts with `prefix`, by the rest of the key, unfilled: what the page's script needs."""
        found = {key.removeprefix(prefix): both for key, both in _TABLE.items() if key.startswith(prefix)}
        return {key: both[self.lang == "zh"] for key, both in found.items()}


_TABLE: dict[str, tuple[str, str]] = {
    # The page
    "report": ("Extraction report", "抽取评估报告"),
    "made_by": ("kgscale {version}", "kgscale {version}"),
    "skip": ("Skip to the chunks", "跳到文本块"),
    "comma": (", ", "，"),
    "space": (" ", ""),
    "and": (" and ", "，"),
    "and_last": ("and {last}", "{last}"),
    "contents": ("Contents", "目录"),
    "nav_agreement": ("Agreement", "一致性"),
    "nav_speed": ("Speed", "速度"),
    "nav_latency": ("Times", "时间"),
    # The verdict
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
    "why": ("Why", "理由"),
    "lead_facts": ("Compared with {baseline}: {facts}.", "与 {baseline} 相比：{facts}。"),
    "lead_obstacles": ("{facts}.", "{facts}。"),
    "fact_falls": ("{what} F1 falls by {points} points to {f1}", "{what} F1 下降 {points} 个百分点，至 {f1}"),
    "fact_rises": ("{what} F1 rises by {points} points to {f1}", "{what} F1 上升 {points} 个百分点，至 {f1}"),
    "fact_stays": ("{what} F1 stays at {f1}", "{what} F1 保持在 {f1}"),
    "fact_faster": ("{candidate} is {times} times faster", "{candidate} 的速度为其 {times} 倍"),
    "fact_slower": ("{candidate} is {times} times slower", "{candidate} 的速度为其 1/{times}"),
    "reason_cell": (
        "The matrix says “{action}” to a drop of {drop} points at {speed} times the speed ({at})",
        "矩阵对「下降 {drop} 个百分点、速度 {speed} 倍」的答案是「{action}」（{at}）",
    ),
    "reason_slower": (
        "At {speed} times the speed, {candidate} is slower than {baseline}; the matrix begins at equal speed",
        "{candidate} 的速度只有 {baseline} 的 {speed} 倍；矩阵从同等速度开始",
    ),
    "reason_speed": (
        "The speed-up is unknown, because not every method has timings: equal speed is assumed",
        "并非每种方法都有计时，因此加速比未知：按同等速度处理",
    ),
    "reason_minimum": (
        "{what} F1 drops by {drop} points; below {limit} is needed",
        "{what} F1 下降 {drop} 个百分点；必须低于 {limit}",
    ),
    "reason_wish": (
        "{what} F1 drops by {drop} points; below {limit} is recommended",
        "{what} F1 下降 {drop} 个百分点；建议低于 {limit}",
    ),
    "reason_floor": (
        "The {what} F1 of {candidate}, {f1}, is below the floor of {floor}",
        "{candidate} 的{what} F1 为 {f1}，低于下限 {floor}",
    ),
    "reason_p": (
        "{what} difference: p = {p} by approximate randomisation",
        "{what}差异：p = {p}（近似随机化检验）",
    ),
    "reason_unfinished": (
        "{method} is not finished: {rows} of {planned} chunks",
        "{method} 尚未完成：{planned} 个文本块中的 {rows} 个",
    ),
    "reason_coverage": (
        "{method} answered {coverage} of the chunks",
        "{method} 对 {coverage} 的文本块给出了可用答案",
    ),
    "reason_no_gold": ("There is no gold to compare with", "没有可供比较的标准标注"),
    "reason_undefined": ("The {what} F1 is undefined", "{what} F1 没有定义"),
    "estimate": ("estimate", "估计值"),
    "low": ("low end of the interval", "区间下端"),
    "high": ("high end of the interval", "区间上端"),
    "use": ("use", "可用"),
    "look": ("look", "细看"),
    "keep": ("keep", "保留"),
    "tile_f1": ("{what} F1", "{what} F1"),
    "tile_speed": ("Speed", "速度"),
    "tile_change": ("{change} points", "{change} 个百分点"),
    "tile_speed_note": ("against {baseline}", "相对于 {baseline}"),
    "times": ("times", "次数"),
    "times_fast": ("{value}×", "{value} 倍"),
    "interval_95": ("95 % interval {between}", "95 % 区间 {between}"),
    "not_compared": ("not compared", "未比较"),
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
    # Tables
    "methods": ("Methods", "方法"),
    "method": ("Method", "方法"),
    "baseline": ("baseline", "基线"),
    "candidate": ("candidate", "候选"),
    "entity": ("entity", "实体"),
    "relation": ("relation", "关系"),
    "Entity": ("Entity", "实体"),
    "Relation": ("Relation", "关系"),
    "entities": ("Entities", "实体"),
    "relations": ("Relations", "关系"),
    "quality": ("Quality", "质量"),
    "cost": ("Cost", "成本"),
    "fate": ("Fate", "结果"),
    "chunks": ("Chunks", "文本块"),
    "rows": ("Rows", "行数"),
    "share": ("share", "占比"),
    "chunks_per_s": ("chunks/s", "块/秒"),
    "amortised_ms": ("ms per chunk", "毫秒/块"),
    "engine_hours": ("engine-h per million", "引擎小时/百万块"),
    "tokens_out": ("tokens out per chunk", "输出词元/块"),
    "usable": ("usable", "可用"),
    "of_rows": ("of {rows}", "共 {rows}"),
    "coverage": ("coverage", "覆盖率"),
    "modes_used": ("Modes: {modes}.", "匹配模式：{modes}。"),
    "no_gold": ("There is no gold: quality is unknown.", "没有标准标注：质量未知。"),
    "cost_note": (
        "Cost is amortised: a chunk’s share of the engine time of its batch, for one replica of each engine.",
        "成本为摊销值：文本块在其批次引擎时间中所占的份额，每种引擎按一个副本计。",
    ),
    "mode": ("Mode", "模式"),
    "macro": ("macro", "宏平均"),
    "all_modes": ("Every mode", "全部模式"),
    "modes_note": (
        "Micro averages over all gold chunks; macro averages are means over chunks. A failed chunk counts as an empty "
        "answer. “–” is undefined, “n/a” does not apply.",
        "微平均基于全部标准文本块；宏平均是各文本块的均值。失败的文本块按空答案计。“–” 表示无定义，“n/a” 表示不适用。",
    ),
    "resampled": (
        "95 % intervals by drawing {units} {unit} with replacement.",
        "95 % 区间由 {units} 个{unit}的有放回重抽样得到。",
    ),
    "unit_document": ("documents", "文档"),
    "unit_chunk": ("chunks", "文本块"),
    "spans": ("Mentions by their offsets", "按偏移比较的提及"),
    "spans_note": (
        "The schemes of SemEval 2013: strict needs span and type, exact the span, partial any overlap (half), type the "
        "type and any overlap.",
        "SemEval 2013 的四种方案：strict 要求边界和类型，exact 只要求边界，partial 有重叠即可（计一半），"
        "type 要求类型且有重叠。",
    ),
    "scheme": ("Scheme", "方案"),
    "correct": ("correct", "正确"),
    "incorrect": ("incorrect", "错误"),
    "partial": ("partial", "部分"),
    "missed": ("missed", "遗漏"),
    "spurious": ("spurious", "多余"),
    "agreement": ("Agreement between methods (F1)", "方法之间的一致性（F1）"),
    "agreement_note": (
        "How far two methods say the same, over the chunks that both answered. It needs no gold and says nothing about "
        "who is right.",
        "两种方法在都有答案的文本块上说法相同的程度。它不需要标准标注，也不说明谁对。",
    ),
    # Charts
    "quality_speed": ("Quality against speed", "质量与速度"),
    "quality_chart": ("{what}: F1 ({mode}) against speed", "{what}：F1（{mode}）与速度"),
    "quality_note": (
        "Up is better, right is faster. Bars are 95 % intervals.",
        "越高越好，越靠右越快。竖线为 95 % 区间。",
    ),
    "speed_axis": ("chunks per second of one replica", "每个副本每秒的文本块数"),
    "floor_line": ("floor {floor}", "下限 {floor}"),
    "latency": ("Time per chunk", "每个文本块的时间"),
    "latency_axis": ("time per chunk, logarithmic", "每个文本块的时间（对数刻度）"),
    "latency_note": (
        "Service: what the engines spent on a chunk, batch mates included. Queue: the wait for them, which batching "
        "chooses. Amortised: the chunk’s share of the engine time. Ticks mark p50, p95 and p99.",
        "服务：引擎花在一个文本块上的时间（含同批次的其他块）。排队：由批处理决定的等待。摊销：该块在引擎时间中的份额。"
        "刻线标出 p50、p95 和 p99。",
    ),
    "latency_table": ("Milliseconds per chunk", "每个文本块的毫秒数"),
    "service": ("Service", "服务"),
    "queue": ("Queue", "排队"),
    "amortised": ("Amortised", "摊销"),
    "time": ("Time", "时间"),
    "mean": ("mean", "均值"),
    "tokens": ("Tokens of the language models", "语言模型的词元"),
    "tokens_prompt": ("prompt", "提示"),
    "tokens_cached": ("of these cached", "其中缓存"),
    "tokens_output": ("output", "输出"),
    # Types
    "per_type": ("Per type", "按类型"),
    "type": ("Type", "类型"),
    "entity_types": ("Entity types: F1", "实体类型：F1"),
    "relation_types": ("Relation types: F1", "关系类型：F1"),
    "in_gold": ("in gold", "标准中"),
    "types_details": ("Precision and recall per type", "各类型的精确率与召回率"),
    "types_note": (
        "Most frequent in the gold first; “–” where neither the gold nor the method has the type.",
        "按在标准中的频率排序；“–” 表示标准和方法都没有该类型。",
    ),
    "others_left": ("{count} others are not shown.", "其他 {count} 项未显示。"),
    "others": ("{count} others", "其他 {count} 项"),
    # Why relations were lost
    "causes": ("Why relations were lost", "关系为何丢失"),
    "nav_causes": ("Losses", "丢失"),
    "cause": ("Cause", "原因"),
    "total": ("all", "合计"),
    "missed_causes": ("Gold relations that were missed", "遗漏的标准关系"),
    "spurious_causes": ("Relations that are not in the gold", "标准中没有的关系"),
    "missed_note": (
        "One cause for each relation (mode pair+type), the first that holds. Bars are shares of the column.",
        "每条关系（模式 pair+type）取第一个成立的原因。条形为本列中的占比。",
    ),
    "lost_column": ("lost: {baseline} → {candidate}", "丢失：{baseline} → {candidate}"),
    "lost_note": (
        "Of the {count} gold relations that {baseline} finds and {candidate} misses, {part} % have an entity missing.",
        "{baseline} 找到而 {candidate} 遗漏的 {count} 条标准关系中，{part} % 缺少实体。",
    ),
    "cause_chunk not answered": ("chunk not answered", "文本块没有答案"),
    "cause_wrong direction": ("wrong direction", "方向错误"),
    "cause_wrong type": ("wrong type", "类型错误"),
    "cause_both found but no edge": ("both ends found, no relation", "两端都找到，但没有关系"),
    "cause_source missing": ("source entity missing", "缺少源实体"),
    "cause_target missing": ("target entity missing", "缺少目标实体"),
    "cause_both missing": ("both entities missing", "两端实体都缺少"),
    "cause_pair unrelated": ("ends are gold entities, but unrelated", "两端是标准实体，但无关系"),
    "cause_entity invented": ("an end is no gold entity", "某一端不是标准实体"),
    "reason_needed": ("About {chunks} gold chunks would decide", "约 {chunks} 个标准文本块即可得出定论"),
    "reason_interval": (
        "The {what} drop lies between {low} and {high} points with 95 % confidence",
        "{what} F1 的降幅以 95 % 的置信度在 {low} 到 {high} 个百分点之间",
    ),
    # Samples
    "samples": ("How wrong would a sample have been?", "只看一个样本会错多少？"),
    "nav_samples": ("Samples", "抽样"),
    "samples_note": (
        "Bars hold the change in F1 that 95 % of samples of this corpus would have shown, the larger loss of entities "
        "and relations; the line is what the whole corpus shows. Beside it, the share of samples that would have led "
        "to another decision.",
        "条形是 95 % 的样本会显示的 F1 变化（取实体与关系中损失较大者），竖线是整个语料的结果。"
        "旁边是会导致另一决定的样本比例。",
    ),
    "samples_axis": ("change in F1, in points", "F1 的变化（百分点）"),
    "samples_table": ("Samples by size", "按大小统计的样本"),
    "sample_of": ("{chunks} chunks", "{chunks} 块"),
    "sample_wrong": ("{share} decide otherwise", "{share} 得出另一决定"),
    "sample_chunks": ("chunks in the sample", "样本中的文本块"),
    "sample_drop": ("points lost, 95 % of samples", "损失百分点（95 % 的样本）"),
    "sample_deviation": ("standard deviation", "标准差"),
    "sample_other": ("decide otherwise", "得出另一决定"),
    # Fate
    "nav_fate": ("Failures", "失败"),
    "fate_section": ("Failures and health", "失败与健康状况"),
    "fate_table": ("Chunks by status", "按状态统计的文本块"),
    "fate_note": (
        "Failed and dead chunks are never “empty”: they count as empty answers and stay in every denominator.",
        "failed 和 dead 的文本块按空答案计，并保留在每个分母中。",
    ),
    "planned": ("in the corpus", "语料共有"),
    "without_extraction": ("gold without row", "有标准无结果"),
    "without_gold": ("rows without gold", "有结果无标准"),
    "failures": ("Failures by reason", "失败原因"),
    "reason": ("Reason", "原因"),
    "health": ("Health of the answers", "答案的健康状况"),
    "check": ("Check", "检查项"),
    "entities_found": ("entities found", "找到的实体"),
    "relations_found": ("relations found", "找到的关系"),
    "ungrounded": ("entities not in the text", "不在原文中的实体"),
    "dangling": ("relation ends that are no entity of the chunk", "不属于本块实体的关系端点"),
    "off_schema_entities": ("entity types off the schema", "模式之外的实体类型"),
    "off_schema_relations": ("relation types off the schema", "模式之外的关系类型"),
    "fallbacks": ("chunks that fell back to another engine", "改用其他引擎的文本块"),
    "nameless": ("items with an empty name, left out", "名称为空而被略去的条目"),
    "unmapped": ("Labels that lead to no type of the schema", "无法对应到模式类型的标签"),
    "unmapped_note": ("Map them by `aliases` in the config.", "可在配置的 `aliases` 中映射它们。"),
    "label": ("Label", "标签"),
    "kind": ("Kind", "种类"),
    # The run card
    "card": ("Run card", "运行卡片"),
    "run": ("run", "运行"),
    "created": ("started", "开始时间"),
    "corpus": ("corpus", "语料"),
    "corpus_text": (
        "chunks {chunks}, documents {documents}, words {words}",
        "{chunks} 个文本块，{documents} 个文档，{words} 词",
    ),
    "corpus_hash": ("corpus hash", "语料哈希"),
    "gold": ("gold", "标准标注"),
    "gold_text": (
        "chunks {chunks} ({origins}), entities {entities}, relations {relations}",
        "{chunks} 个文本块（{origins}），{entities} 个实体，{relations} 条关系",
    ),
    "gold_outside": ("gold chunks outside the corpus", "不在语料中的标准文本块"),
    "gold_nameless": ("gold items with an empty name", "名称为空的标准条目"),
    "gold_hash": ("gold hash", "标准标注哈希"),
    "seed": ("seed", "随机种子"),
    "versions": ("versions", "版本"),
    "hardware": ("hardware", "硬件"),
    "cost_card": ("engine-hours per million chunks", "每百万文本块的引擎小时"),
    "devices": ("devices", "设备"),
    "engines": ("Engines", "引擎"),
    "engine": ("Engine", "引擎"),
    "model": ("Model", "模型"),
    "revision": ("Revision", "修订"),
    "settings": ("Settings", "设置"),
    "how_methods": ("How the methods are built", "方法的构成"),
    "entities_by": ("Entities by", "实体由"),
    "relations_by": ("Relations by", "关系由"),
    "contents_hash": ("Model contents", "模型内容"),
    "stamp": ("Fingerprint", "指纹"),
    "config": ("The config", "配置"),
    # The explorer
    "explorer": ("Chunks", "文本块"),
    "explorer_note": (
        "Here are {shown} of {total} chunks: those on which the methods did worst, and a random sample (seed {seed}). "
        "The worst alone would paint too dark a picture.",
        "这里是 {total} 个文本块中的 {shown} 个：各方法表现最差的，以及随机抽样（种子 {seed}）。只看最差的会过于悲观。",
    ),
    "explorer_all": ("All {total} chunks are here.", "全部 {total} 个文本块都在这里。"),
    "explorer_keys": ("Keys: j and k move, / searches.", "按键：j、k 移动，/ 搜索。"),
    "noscript": ("The chunk explorer needs JavaScript.", "文本块浏览器需要 JavaScript。"),
    "filters": ("Filters", "筛选"),
    "filter_type": ("Type", "类型"),
    "filter_kind": ("Error", "错误"),
    "filter_picked": ("Chosen as", "选入原因"),
    "filter_search": ("Search", "搜索"),
    "any": ("any", "不限"),
    "kind_missed": ("missed", "遗漏"),
    "kind_spurious": ("spurious", "多余"),
    "kind_type": ("wrong type", "类型错误"),
    "kind_direction": ("wrong direction", "方向错误"),
    "kind_status": ("status not ok", "状态非 ok"),
    "picked_worst": ("worst", "最差"),
    "picked_sampled": ("random sample", "随机抽样"),
    "js_matched": ("found", "找到"),
    "js_found": ("found", "找到"),
    "js_type": ("wrong type", "类型错误"),
    "js_direction": ("wrong direction", "方向错误"),
    "js_missed": ("missed", "遗漏"),
    "js_spurious": ("spurious", "多余"),
    "js_absent": ("not said", "未提及"),
    "js_count": ("{shown} of {all} chunks", "{shown} / {all} 个文本块"),
    "js_none": ("No chunk fits these filters.", "没有符合筛选条件的文本块。"),
    "js_errors": ("{count} errors", "{count} 处错误"),
    "js_error": ("1 error", "1 处错误"),
    "js_right": ("no error", "没有错误"),
    "js_items": ("{count} items", "{count} 项"),
    "js_entity": ("Entity", "实体"),
    "js_relation": ("Relation", "关系"),
    "js_gold": ("gold", "标准"),
    "js_no_row": ("no row", "无结果"),
    "js_no_entities": ("No entities, in the gold or said by a method.", "标准和各方法都没有实体。"),
    "js_no_relations": ("No relations, in the gold or said by a method.", "标准和各方法都没有关系。"),
    "js_ungrounded": ("not in the text", "不在原文中"),
    "js_cut": ("{count} more characters are not shown.", "还有 {count} 个字符未显示。"),
    "js_left": ("{count} more items are not shown.", "还有 {count} 项未显示。"),
    "js_chunk_of": ("{at} of {all}", "{at} / {all}"),
    "js_previous": ("Previous", "上一个"),
    "js_next": ("Next", "下一个"),
    "js_document": ("document", "文档"),
    "js_row": ("row", "行"),
    "js_legend": ("Marks of {method}", "{method} 的标记"),
}
