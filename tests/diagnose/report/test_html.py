import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings

from fullgraph.diagnose.report.html import fragment, page

from .explanations import BRANCH, CLEAN, EDITED, HIDDEN, TRICKY, TROUBLED, TWO, UNKNOWN, many
from .strategies import EXPLANATION

VOID = {"meta", "br"}
EVERY_SORT = [CLEAN, TWO, TROUBLED, many(30), replace(TWO, causes=(TRICKY, UNKNOWN))]


class Page(HTMLParser):
    """Its elements, ids, links and text; fails where tags do not nest."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.links = [], [], [], []
        self.text, self.marks = "", []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        attributes = dict(attributes)
        assert not any(name.startswith("on") for name in attributes)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes["href"]] if "href" in attributes else []
        if tag not in VOID:
            self.open.append(tag)
        if tag == "mark":
            self.marks.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.text += data
        if "mark" in self.open:
            self.marks[-1] += data


@pytest.mark.parametrize("explanation", EVERY_SORT)
def test_a_page_is_whole_and_loads_nothing(explanation):
    text = page(explanation)
    parsed = Page(text)
    assert text.startswith("<!doctype html>")
    assert not {"script", "link", "img", "iframe"} & set(parsed.tags)
    assert not re.search(r"https?:|@import|url\(", text)


@pytest.mark.parametrize("explanation", EVERY_SORT)
def test_links_lead_to_anchors_that_exist_once(explanation):
    parsed = Page(page(explanation))
    assert len(parsed.ids) == len(set(parsed.ids))
    assert {link.removeprefix("#") for link in parsed.links} <= set(parsed.ids)


def test_the_table_holds_a_row_a_cause_with_its_edit():
    parsed = Page(page(replace(TWO, causes=(EDITED, BRANCH, HIDDEN))))
    table = " ".join(parsed.text.partition("effect")[2].split())
    assert table.startswith(
        "C2 net.py:22 x.sum() > 0 branch on a tensor frame runs in eager "
        "try Compute both sides and choose with torch.where. "
        "C1 net.py:14 mask.sum().item() scalar from a tensor ends 1 graph "
        "edit total = mask.sum() FG201, unsafe "
        "only if every reader of self.log accepts a 0-d tensor "
        "C3 net.py:24 print(x.shape) print hidden by C2 "
    )


def test_details_are_folded_and_their_anchors_inside():
    text = page(TWO)
    assert text.count('<details class="fg-card fg-cause') == 3
    assert "<details open" not in text
    assert re.search(r'</summary>\s*<div id="fullgraph-1">', text)


def test_a_gb_id_is_a_link_if_its_address_is_safe():
    assert '<a href="https://example.org/gb0124.html">GB0124</a>' in page(
        replace(TWO, causes=(EDITED,))
    )
    assert "javascript:" not in page(
        replace(TWO, causes=(replace(EDITED, url="javascript:alert(1)"),))
    )


def test_the_edit_is_a_diff_of_the_file():
    parsed = Page(page(replace(TWO, causes=(EDITED,))))
    assert "14- total = mask.sum().item()\n+ total = mask.sum()\n" in parsed.text


def test_the_strip_links_each_break_to_its_cause():
    parsed = Page(page(TWO))
    assert parsed.links[:2] == ["#fullgraph-1", "#fullgraph-2"]


def test_exactly_the_expression_is_highlighted():
    assert Page(page(TWO)).marks == ["mask.sum().item()", "x.sum() > 0", "print(x.shape)"]


def test_what_the_user_wrote_is_text():
    parsed = Page(page(replace(TROUBLED, target="<i>", verdict="<b>", causes=(TRICKY,))))
    assert not {"script", "i"} & set(parsed.tags)
    assert "<script>alert(1)</script>" in parsed.text
    assert "\\x1b[31mescapes" in parsed.text


def test_code_in_a_sentence_is_set_as_code():
    text = page(replace(TWO, causes=(replace(TRICKY, message="Use `a<b` not `c`."),)))
    assert "Use <code>a&lt;b</code> not <code>c</code>." in text


def test_two_fragments_in_one_notebook_do_not_collide():
    one, two = Page(fragment(TWO)), Page(fragment(TWO))
    assert one.ids and not set(one.ids) & set(two.ids)


def test_a_fragment_styles_nothing_outside_itself():
    style = re.search(r"<style>(.*?)</style>", fragment(TWO), re.DOTALL).group(1)
    style = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    outer, depth = "", 0
    for character in style:
        depth -= character == "}"
        outer += character if depth == 0 and character != "}" else "\n" if depth == 0 else ""
        depth += character == "{"
    rules = [" ".join(rule.split()) for rule in outer.replace("{", "\n\n").split("\n\n")]
    rules = [rule for rule in rules if rule]
    assert len(rules) == 3
    assert all(rule.endswith(":is(#fullgraph-none, .fullgraph)") for rule in rules)


def test_dark_and_light_follow_the_page_and_the_notebook():
    text = fragment(TWO)
    assert "light-dark(" in text
    assert 'data-jp-theme-light="false"' in text
    assert ".vscode-dark" in text


def test_time_is_not_spoken_of_unless_it_was_measured():
    assert "6.75 s" in page(TROUBLED)
    assert "6.75 s" not in page(replace(TROUBLED, measurement=None))


def test_a_clean_model_is_its_verdict():
    parsed = Page(page(CLEAN))
    assert CLEAN.verdict in parsed.text
    assert not {"table", "figure", "details"} & set(parsed.tags)


def test_the_page_is_written_where_it_is_asked_for(tmp_path):
    odd = replace(TWO, output="\ud800 é")
    path = tmp_path / "report.html"
    assert odd.to_html(path) == path.read_text(encoding="utf-8")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(EXPLANATION)
def test_no_explanation_breaks_the_page(explanation):
    parsed = Page(page(explanation))
    assert not {"script", "img"} & set(parsed.tags)
