"""Every word of the review page, in English and in Chinese; what stands in braces is filled in by the page's script."""

from typing import Literal

Lang = Literal["en", "zh"]

_WORDS = {
    "title": ("Gold review", "金标审阅"),
    "save": ("Save reviewed.json", "保存 reviewed.json"),
    "chunks": ("Chunks", "文本块"),
    "chunk": ("Chunk", "文本块"),
    "types": ("Types", "类型"),
    "no_script": ("Reviewing needs JavaScript.", "审阅需要启用 JavaScript。"),
    "key_accept": ("accept", "接受"),
    "key_reject": ("reject", "拒绝"),
    "key_fix": ("fix:", "修改："),
    "key_choose": ("choose an item,", "选择一项，"),
    "key_type": ("set its type,", "设定其类型，"),
    "key_delete": ("delete it,", "删除它，"),
    "key_relate": ("relate it", "建立关系"),
    "key_select": ("select text, then", "选中文本后按"),
    "key_add": ("adds an entity", "添加实体"),
    "key_move": ("next, previous", "下一块、上一块"),
    "key_undo": ("undo", "撤销"),
    "key_save": ("save", "保存"),
    "progress": (
        "{accepted} accepted, {rejected} rejected, {open} open",
        "已接受 {accepted}，已拒绝 {rejected}，未审阅 {open}",
    ),
    "place": ("{number} of {count}", "第 {number} 块，共 {count} 块"),
    "accepted": ("accepted", "已接受"),
    "rejected": ("rejected", "已拒绝"),
    "open": ("open", "未审阅"),
    "annotated_by": ("annotated by {annotator}", "由 {annotator} 标注"),
    "entities": ("Entities", "实体"),
    "relations": ("Relations", "关系"),
    "absent": ("(not in the text)", "（不在文本中）"),
    "need_target": ("Choose an entity as the target, then a type.", "请选择一个实体作为目标，再选择类型。"),
    "added": ("Added: {relation}", "已添加：{relation}"),
    "need_item_or_text": ("Choose an item, or select text.", "请选择一项，或选中文本。"),
    "need_item": ("Choose an item first.", "请先选择一项。"),
    "relations_gone": ("Its {count} relations are gone too.", "它的 {count} 个关系也一并删除。"),
    "need_source": (
        "Choose the entity that the relation starts from, then press r.",
        "请先选择关系的起点实体，再按 r。",
    ),
    "from_source": (
        "From {source}: choose the target, then a type; Esc cancels.",
        "起点为 {source}：请选择目标，再选择类型；按 Esc 取消。",
    ),
    "all_done": ("Nothing is open any more: save.", "已全部审阅：请保存。"),
    "nothing_undone": ("There is nothing to undo.", "没有可撤销的操作。"),
    "saved": (
        "Saved {chunks} chunks; {rejected} rejected and {open} open ones are not among them.",
        "已保存 {chunks} 个文本块；其中不含被拒绝的 {rejected} 个和未审阅的 {open} 个。",
    ),
}


def words(lang: Lang) -> dict[str, str]:
    """The words of one language, by key."""
    return {key: both[lang == "zh"] for key, both in _WORDS.items()}
