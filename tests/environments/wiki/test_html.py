import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.environments.wiki.html import MAX_HTML, clean_html, clean_line
from pipeline.environments.wiki.sentences import split_sentences

PAGE = """
<div class="vector-menu"><p>Pages for logged out editors <a>learn more</a></p><ul><li>Talk</li></ul></div>
<div class="mw-content-ltr mw-parser-output" lang="en" dir="ltr">
<div class="shortdescription nomobile noexcerpt noprint searchaux" style="display:none">City in Poland</div>
<div role="note" class="hatnote navigation-not-searchable">For other uses, see <a title="X">X</a>.</div>
<table class="infobox"><tbody><tr><td><p>Population: 1</p><ul><li>boxed</li></ul></td></tr></tbody></table>
<p class="mw-empty-elt">
</p>
<p><span class="geo-inline"><span class="geo-dms">54°22′N 18°38′E</span></span></p>
<!-- a comment -->
<style data-mw-deduplicate="x">.mw-parser-output p{color:red}</style>
<p><b>Gdańsk</b> (<a href="/wiki/Help:IPA" title="Help:IPA">Danzig</a>)<sup id="r1" class="reference"><a
href="#n1">&#91;1&#93;</a></sup> is a&nbsp;city &amp; port.<sup class="noprint Inline-Template">[<i>citation
needed</i>]</sup>   It lies on the <a href="/wiki/Baltic" title="Baltic Sea">Baltic</a><br/>coast.</p>
<figure><figcaption><p>A caption</p></figcaption></figure>
<h2><span class="mw-headline">History</span><span class="mw-editsection">[<a>edit</a>]</span></h2>
<ul><li>First item, <a href="/wiki/Ann" title="Ann">Ann</a>
  <ul><li>Inner <a href="/wiki/Bob" title="Bob">Bob</a></li></ul> and its end</li>
<li></li><li><a class="new" title="Cid (page does not exist)">Cid</a></li></ul>
<p>Energy is <span class="mwe-math-element"><math><semantics><mi>E</mi><annotation
encoding="application/x-tex">{\\displaystyle E}</annotation></semantics></math></span> here.</p>
<p style="display: none">Hidden</p>
<ol class="references"><li>A reference</li></ol>
<div class="navbox" role="navigation"><ul><li>A box below</li></ul></div>
<script>var p = "<p>script</p>"</script>
<div class="reflist"><ul><li>Another reference</li></ul></div>
</div>
<div id="catlinks"><ul><li>Cities</li></ul></div><p>Footer text</p>
"""


def test_a_page_is_cleaned_paragraphs_first():
    cleaned = clean_html(PAGE)
    assert cleaned.paragraphs == [
        "Gdańsk (Danzig) is a city & port. It lies on the Baltic coast.",
        "Energy is E here.",
    ]
    assert cleaned.items == ["First item, Ann and its end", "Inner Bob", "Cid"]
    assert cleaned.links == ["Ann", "Bob"]
    assert cleaned.text.split("\n") == cleaned.paragraphs + cleaned.items


def test_chrome_of_the_site_is_dropped_where_nothing_marks_the_article():
    cleaned = clean_html("<p>Pages for logged out editors learn more</p><p>The article.</p>")
    assert cleaned.text == "The article."


@pytest.mark.parametrize(
    "name",
    [
        "Help:IPA",
        "Wikipedia:Stub",
        "Category:Cities",
        "File:A.png",
        "Special:Search",
        "Template:X",
        "help:ipa",
    ],
)
def test_links_that_lead_to_no_article(name):
    cleaned = clean_html(f'<ul><li><a title="{name}">x</a> <a title="Mission: Impossible">y</a></li></ul>')
    assert cleaned.links == ["Mission: Impossible"]


def test_a_footnote_leaves_a_sentence_whole():
    html = "<p>He joined the internet.<sup class='reference'>[1]</sup>A year later he left.</p>"
    assert split_sentences(clean_html(html).text) == ["He joined the internet.", "A year later he left."]


def test_entities_marks_and_forms_of_unicode():
    html = "<p>e&#x301; &lt;b&gt; &#xD800; a&shy;b&#x200B;c \u202eabc\u202c x\x00y\ud800 \u2028z&zwnj;w</p>"
    assert clean_html(html).text == "é <b> \ufffd abc abc x\ufffdy\ufffd z\u200cw"


@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=80))
def test_a_clean_line_is_one_line_in_nfc_and_stays_so(text):
    line = clean_line(text)
    line.encode("utf-8")
    assert line == " ".join(line.split())
    assert len(line.splitlines()) <= 1
    assert unicodedata.is_normalized("NFC", line)
    assert clean_line(line) == line


TOKENS = """<p> </p> <ul> <li> </li> </ul> <table> </table> <div§class=navbox> </div> <a§title=T> </a>
<div§class=mw-parser-output> <sup§class=reference> </sup> <br> a § &amp; <!-- -->
<style> </style> < \0 ]]> <p '"""


@settings(max_examples=300)
@given(st.lists(st.sampled_from(TOKENS.split()), max_size=40).map("".join))
def test_any_markup_is_read(html):
    cleaned = clean_html(html.replace("§", " "))
    assert all(line and "\n" not in line for line in cleaned.paragraphs + cleaned.items)


@given(st.lists(st.text(max_size=20).map(clean_line).filter(bool), max_size=5),
       st.lists(st.text(max_size=20).map(clean_line).filter(bool), max_size=5))  # fmt: skip
def test_what_is_marked_up_comes_back(paragraphs, items):
    escape = str.maketrans({"<": "&lt;", "&": "&amp;"})
    blocks = [f"<p>{line.translate(escape)}</p>" for line in paragraphs]
    listed = "".join(f"<li>{line.translate(escape)}" for line in items)
    cleaned = clean_html(f"<ul>{listed}</ul>" + "<table><tr><td>x</table>".join(blocks))
    assert (cleaned.paragraphs, cleaned.items) == (paragraphs, items)


@pytest.mark.parametrize(
    "html",
    [
        "",
        " ",
        "no tags",
        "<div>" * 100_000 + "<p>x",
        "<ul><li>a" * 20_000,
        "<p><a><b><i>" * 20_000,
        "<table>" * 20_000,
        "<a></b>" * 50_000,
        "</div>" * 100_000,
        "<!--" * 100_000,
        "<p>a" + "\u0301\u0323" * 200_000,
        "<p " + " ".join(f"a{number}=1" for number in range(50_000)) + ">x",
        "<p class='" + "a " * 500_000 + "'>x",
        "&" * 500_000,
        "<p>" + "&#x110000;" * 50_000,
    ],
    ids=range(15),
)
def test_hostile_pages_of_any_depth_are_read_in_time(html):
    start = time.monotonic()
    clean_html(html).text.encode("utf-8")
    assert time.monotonic() - start < 20


def test_a_page_is_read_up_to_its_bound():
    assert clean_html(" " * (MAX_HTML - 7) + "<p>kept<p>lost").text == "kept"
