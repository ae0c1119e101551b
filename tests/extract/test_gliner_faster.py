"""What makes GLiNER faster gives the same as GLiNER itself."""

import pytest
import torch

from kgscale.extract.gliner_faster import best_dtype, factor_scorer, pair_scores, quick_span_labels

pytestmark = pytest.mark.engines


def test_factored_scorer_is_the_same_function():
    from gliner.modeling.scorers import Scorer

    torch.manual_seed(0)
    model = torch.nn.Module()
    model.scorer = Scorer(16).eval()
    words, labels = torch.randn(2, 7, 16), torch.randn(2, 5, 16)
    expected = model.scorer(words, labels)
    factor_scorer(model)
    assert torch.allclose(model.scorer(words, labels), expected, atol=1e-6)
    factor_scorer(torch.nn.Module())


def test_pairs_are_scored_as_by_the_network_over_both_ends():
    from gliner.modeling.layers import create_projection_layer
    from gliner.modeling.span_rep import SpanRepLayer

    torch.manual_seed(0)
    model = torch.nn.Module()
    model.span_rep_layer = SpanRepLayer(16, 12, "token_level", dropout=0.0).eval()
    model.pair_rep_layer = create_projection_layer(32, 0.0, 16).eval()
    words, prompts = torch.randn(3, 9, 16), torch.randn(3, 4, 16)
    spans = [torch.tensor([[0, 1], [3, 3], [5, 8]]), torch.zeros(0, 2, dtype=torch.long), torch.tensor([[2, 2]])]
    found = pair_scores(model, words, spans, prompts)
    assert [it.shape for it in found] == [(3, 3, 4), (0, 0, 4), (1, 1, 4)]
    ends = model.span_rep_layer(words[:1], spans[0].unsqueeze(0))[0]
    for head in range(3):
        for tail in range(3):
            both = model.pair_rep_layer(torch.cat([ends[head], ends[tail]]))
            assert torch.allclose(found[0][head, tail], prompts[0] @ both, atol=1e-5)


@pytest.mark.parametrize("words", [0, 1, 5, 40])
def test_quick_span_labels_are_the_original_ones(words):
    from gliner import GLiNERConfig
    from gliner.data_processing import UniEncoderSpanProcessor

    config = GLiNERConfig(max_width=4, max_len=24)
    plain, quick = (UniEncoderSpanProcessor.__new__(UniEncoderSpanProcessor) for _ in range(2))
    plain.config = quick.config = config
    quick_span_labels(quick)
    tokens = [f"w{n}" for n in range(words)]
    for ner in (None, [], [(0, 0, "person")] if words else []):
        expected, found = (it.preprocess_example(tokens, ner, {"person": 1}) for it in (plain, quick))
        assert torch.equal(found["span_label"], expected["span_label"])
        assert found["span_label"].dtype == expected["span_label"].dtype
        assert torch.equal(found["span_idx"], expected["span_idx"])


def test_a_processor_without_spans_is_left_alone():
    other = object()
    quick_span_labels(other)


def test_the_type_to_compute_in_is_one_that_the_machine_has():
    assert best_dtype("cpu") in (torch.bfloat16, torch.float32)
