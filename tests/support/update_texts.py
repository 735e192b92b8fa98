"""Texts of updates, one for each form of data."""

from __future__ import annotations

XSD = "http://www.w3.org/2001/XMLSchema#"


BODIES = {
    "nothing": "",
    "one triple": "<urn:s> <urn:p> <urn:o>",
    "dot at the end": "<urn:s> <urn:p> <urn:o> .",
    "no space": "<urn:s><urn:p>'o'.<urn:s><urn:p>+1,-1",
    "a": "<urn:s> a <urn:C>",
    "lists": "<urn:s> <urn:p> 1, 2 ;; <urn:q> 3 ; .",
    "quotings": """<urn:s> <urn:p> "a'b", 'a"b', '''a'b''c\nd''', \"\"\"a"b""c\nd\"\"\", "", '', \"\"\"\"\"\" """,
    "quote before the end": r'''<urn:s> <urn:p> """a\"""", "\\" , '\'' ''',
    "string escapes": r'<urn:s> <urn:p> "\t\b\n\r\f\"\'\\ é \U0001F600 \\u0041"',
    "iri escapes": r"<urn:\u0061\U000000E9> <urn:p> <urn:\u00e9>",
    "odd characters": '<urn:s> <urn:p> "\t\x00\x0b\x7f\u2028\ufffe\U0001f600"',
    "comments": "# <urn:x> \n <urn:s> # ' \n <urn:p> '#no' # }\r , <urn:o#yes> . # end\n",
    "languages": '<urn:s> <urn:p> "x"@en, "x"@EN-gb, "x" @de-CH-1996, "x"@ar--rtl',
    "datatypes": f'<urn:s> <urn:p> "x"^^<urn:d>, "y" ^^ ex:d, "z"^^<{XSD}string>, "1"^^xsd:int',
    "numbers": "<urn:s> <urn:p> 00, +5, -0, 1.0, .5, +.50, 1e5, 1.e5, .5E-5, -1.50, 99999999999999999999",
    "booleans": '<urn:s> <urn:p> true, false, "1"^^xsd:boolean, "TRUE"^^xsd:boolean',
    "times": '<urn:s> <urn:p> "2020-01-01T24:00:00"^^xsd:dateTime, "2020-01-01T00:00:00.0+00:00"^^xsd:dateTimeStamp,'
    ' "P1Y13M"^^xsd:yearMonthDuration, "PT3600S"^^xsd:dayTimeDuration, "12:00:00.0"^^xsd:time, "2020-13"^^xsd:gYearMonth',
    "wrong numbers": '<urn:s> <urn:p> "x"^^xsd:integer, " 1 "^^xsd:integer, "x"^^xsd:byte, "+INF"^^xsd:double, "1"^^xsd:float',
    "prefixed names": r":s ex:p ex: , ex:a:b, ex:a.b, ex:%41%c3, ex:\~\.\-\!\$\&\'\(\)\*\+\,\;\=\/\?\#\@, ex:0, :é, e.x:x",
    "blank labels": "_:a <urn:p> _:b . _:b <urn:p> _:a, _:0, _:a.b, _:a.",
    "anonymous": "[] <urn:p> [], [ ] . [ <urn:p> [ <urn:q> 1 ] ; <urn:r> 2 ] . [ <urn:p> 1 ] <urn:q> 2 .",
    "collections": "<urn:s> <urn:p> (), ( ), (1), (1 (2 [ <urn:q> 3 ]) ()) . (1 2) <urn:p> 3 . (1) .",
    "graphs": "<urn:s> <urn:p> 1 GRAPH <urn:g> { <urn:s> <urn:p> 1 . } . graph ex:g { } GRAPH<urn:h>{_:x a _:x} _:x a 1",
    "relative": "<s> <#p> <>, <?q>, <//h/x>, </../y>, <../../../z>, <http://o/a/../b>, <g;x=1/../y>",
    "triple terms": "<urn:s> <urn:p> <<( <urn:a> a <<( _:b <urn:p> 01 )>> )>>",
    "reified": "<< <urn:s> <urn:p> 1 >> <urn:q> 2 . << _:x a << _:y a 1 ~ _:z >> ~ <urn:r> >> . <urn:s> <urn:q> << <urn:s> a 1 >>",
    "annotations": "<urn:s> <urn:p> 1 ~ <urn:r> {| a 1 ; <urn:q> 2 |} ~ , 2 {| a 2 |} {| a 3 {| a 4 |} |} ~ [] ~_:b",
}


PROLOGUE = (
    "BASE <http://no/> BASE <http://base/a/b/c?d> PREFIX : <rel#> PREFIX ex: <urn:old:> "
    f"PREFIX ex: <http://ex/> prefix e.x: <urn:e:> PREFIX xsd: <{XSD}> VERSION '1.2'\n"
)
