#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Puts what tests/gpu/run.sh needs on a machine without compilers and network into build/gpu: the static
# command, a CUDA program (start.c), and strace with its libraries, to see why a run fails there.
set -euo pipefail
cd "$(dirname "$0")/../.."
to=build/gpu
mkdir -p $to/strace
strip -o $to/cordon build/release/cmd/cordon/cordon
if file $to/cordon | grep -q 'dynamically linked'; then
	echo "carry: the command is not static; it needs a libc like this machine's" >&2
fi
# For a machine whose C library is not older than this one's.
gcc -O2 -o $to/start tests/gpu/guest/start.c -ldl
tracer=$(command -v strace)
ldd "$tracer" | awk '$3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }' | xargs -I{} cp -L {} $to/strace/
cp "$tracer" $to/strace/strace
cat >$to/strace/run <<'END'
#!/bin/sh
here=$(dirname "$0")
exec "$here"/ld-linux*.so.* --library-path "$here" "$here/strace" "$@"
END
chmod +x $to/strace/run
du -sh $to
