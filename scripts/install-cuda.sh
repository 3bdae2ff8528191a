#!/usr/bin/env bash
# Installs ONNX Runtime's CUDA provider (Linux x64) beside the npm package's own library: `--device cuda` works then.
#
#     bash scripts/install-cuda.sh
#
# The provider is taken from the Python wheel of the very same version, built for CUDA 13. Needs Python's pip and
# unzip; nothing of Python is needed afterwards. CUDA's own libraries (cuBLAS, cuDNN 9, cuRAND) must be on the
# system, or on LD_LIBRARY_PATH: PyTorch's wheels bring them too. With CUDA's runtime compiler there as well (NVRTC,
# libnvrtc.so.13 or .12) the engine runs kernels of its own, which is faster: `message-board doctor` says whether it does.
set -euo pipefail
cd "$(dirname "$0")/.."
package=$(node -p "require('node:path').dirname(require.resolve('onnxruntime-node/package.json'))")
version=$(node -p "require('onnxruntime-node/package.json').version")
target="$package/bin/napi-v6/linux/x64"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --no-deps --only-binary=:all: \
  --python-version 3.12 --implementation cp --platform manylinux_2_28_x86_64 \
  --dest "$work" "onnxruntime-gpu==$version"
for library in libonnxruntime_providers_shared.so libonnxruntime_providers_cuda.so; do
  unzip -q -o -j "$work"/onnxruntime_gpu-*.whl "onnxruntime/capi/$library" -d "$target"
done
echo "Installed in $target. Now: npx message-board doctor"
