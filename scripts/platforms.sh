#!/bin/sh
# Dry-run the runtime lock on every platform and Python that mlxbun supports: each package must
# have a wheel there (nothing is built from source), and torch and triton must not be among them.
set -eu
cd "$(dirname "$0")/.."
export MACOSX_DEPLOYMENT_TARGET=14.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# MLX needs macOS 14 and glibc 2.35, newer than what uv assumes by default.
for platform in aarch64-apple-darwin x86_64-manylinux_2_35 aarch64-manylinux_2_35; do
    for python in 3.11 3.12 3.13 3.14; do
        if ! uv pip install --quiet --dry-run --no-deps --require-hashes --only-binary :all: \
            --python-platform "$platform" --python-version "$python" --target "$work" \
            -r requirements/runtime.txt 2> "$work/error"; then
            echo "$platform python $python: FAILED"
            cat "$work/error"
            exit 1
        fi
        echo "$platform python $python: ok"
    done
done
