"""Math-Verify's own tests as pairs for ours: a JSON list of [file, gold, reply, expected] on stdout.

usage: python math_verify_tests.py FOLDER      (`tests` of its source: pip download math-verify==0.9.0 --no-deps --no-binary :all:)

Taken are the rows of every test that is given a gold, a reply and what is expected, but for those that turn a rule of its
own off. Reads the sources and runs nothing.
"""

import ast
import json
import sys
from pathlib import Path

pairs = []
for path in sorted(Path(sys.argv[1]).glob("test_*.py")):
    for call in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.parametrize"):
            continue
        names, rows = call.args[0], call.args[1]
        names = ast.literal_eval(names)
        names = [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]
        if names[:2] != ["gold", "pred"] or not isinstance(rows, ast.List):
            continue
        for row in rows.elts:
            try:
                given = dict(zip(names, ast.literal_eval(row)))
            except ValueError:
                continue  # Made of SymPy's own objects.
            # An option that turns one of its rules off is its own.
            if given.get("allow_set_relation_comp") is False or given.get("strict") is False:
                continue
            expected = given.get("expected", given.get("result"))
            pairs.append([path.stem, given["gold"], given["pred"], bool(expected)])
json.dump(pairs, sys.stdout, ensure_ascii=False)
