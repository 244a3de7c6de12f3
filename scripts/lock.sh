#!/bin/sh
# Resolve both locks for every platform at once. Needs uv on the PATH, or takes it by pip.
#
# torch and triton come with xgrammar's metadata but nothing of them is used with MLX, so they
# are overridden away and the locks are installed with --no-deps (CONTRIBUTING.md, "The lock").
set -eu
cd "$(dirname "$0")/.."
uv=$(command -v uv || true)
if [ -z "$uv" ]; then
    python3 -m venv .venv-lock && .venv-lock/bin/pip install --quiet uv
    uv=.venv-lock/bin/uv
fi
overrides=$(mktemp)
trap 'rm -rf "$overrides" .venv-lock' EXIT
printf "torch; sys_platform == 'never'\ntriton; sys_platform == 'never'\n" > "$overrides"

resolve() { # resolve OUTPUT EXTRA-ARGUMENTS...
    output=$1; shift
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --override "$overrides" --no-emit-package torch --no-emit-package triton \
        --no-emit-package setuptools --no-emit-index-url --no-header --no-annotate \
        --output-file "$output" "$@"
    # Drop what only other platforms need, and the project itself (it has no hash).
    python3 - "$output" <<'PY'
import re, sys
path = sys.argv[1]
blocks = re.split(r"\n(?=\S)", open(path, encoding="utf-8").read().strip())
elsewhere = re.compile(r"sys_platform == '(never|win32|emscripten)'\s*\\?$")
keep = [b for b in blocks if not elsewhere.search(b.split("\n")[0]) and b[0] not in "#-"]
open(path, "w", encoding="utf-8").write("\n".join(keep) + "\n")
PY
}
resolve requirements/runtime.txt requirements/runtime.in
resolve requirements/dev.txt --constraint requirements/runtime.txt --group dev requirements/runtime.in
