#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every type, member, enumerator and constant of device/abi must be as in NVIDIA's headers. They are
# read out of our preprocessed headers into a list, from which one probe is made that prints values,
# sizes and offsets; it is compiled against our headers and against theirs, and must print the same.
# shellcheck source=tests/abi_common.sh
. "$(dirname "$0")/abi_common.sh"

cuda_include=$(need_header cuda.h)
nccl_include=$(need_header nccl.h)

# version HEADER MACRO: the number that the macro stands for.
version() {
    sed -n "s/^#define $2  *\([0-9][0-9]*\).*/\1/p" "$1"
}

# Older headers lack names that ours have. Newer ones only add, save that ncclConfig_t gets longer.
cuda_version=$(version "$cuda_include/cuda.h" CUDA_VERSION)
nccl_version=$(version "$nccl_include/nccl.h" NCCL_VERSION_CODE)
our_nccl_version=$(version "$source_dir/device/abi/nccl.h" NCCL_VERSION_CODE)
[ "$cuda_version" -ge 13000 ] || skip "cuda.h is of $cuda_version, device/abi of 13000"
[ "$nccl_version" -ge "$our_nccl_version" ] ||
    skip "nccl.h is of $nccl_version, device/abi of $our_nccl_version"
newer='^$'
if [ "$nccl_version" -gt "$our_nccl_version" ]; then
    newer='^type ncclConfig_t:|^macro NCCL_(MAJOR|MINOR|PATCH|VERSION_CODE) '
    newer+='|^NCCL_CONFIG_INITIALIZER'
fi

cat >"$work/ours.h" <<'END'
#include "device/abi/cublaslt.h"
#include "device/abi/nccl.h"
END
cat >"$work/theirs.h" <<'END'
#include <cuda.h>
#include <cublasLt.h>
#include <nccl.h>
END

# The text that comes from device/abi, one token a line.
gcc -std=gnu11 -E -I"$source_dir" "$work/ours.h" |
    awk '/^# [0-9]+ "/ { ours = $3 ~ /device\/abi\//; next } ours' |
    sed 's/_Alignas([0-9]*)//g; s/\([][{}();,=*]\)/ \1 /g' | tr -s ' \t' '\n' | grep . \
    >"$work/tokens"

# Reads typedefs only. depth counts the braces of a struct or union, path[] the members around it.
awk '
function declare(name) { print "TYPE(" name ")" }
$0 == "typedef" && depth == 0 { word = ""; in_enum = 0; n = 0; in_typedef = 1; next }
!in_typedef { next }
$0 == "enum" { in_enum = 1; expect = 0; next }
$0 == "{" && in_enum { expect = 1; next }
in_enum && expect && /^[A-Za-z_]/ { print "VALUE(" $0 ")"; expect = 0; next }
in_enum && $0 == "," { expect = 1; next }
in_enum && $0 == "}" { in_enum = 0; word = ""; next }
in_enum && $0 == ";" { declare(word); in_typedef = 0; in_enum = 0; next }
in_enum { if (/^[A-Za-z_]/) word = $0; next }
$0 == "{" { depth++; word = ""; next }
$0 == "}" { depth--; word = ""; next }
$0 == "[" { bracket = 1; next }
$0 == "]" { bracket = 0; next }
bracket { next }
$0 == ";" {
    if (depth == 0) {
        declare(word)
        for (i = 0; i < n; i++) print "MEMBER(" word ", " members[i] ")"
        in_typedef = 0
    } else {
        # A nested struct is named after its members: give them its name in front.
        for (i = 0; i < n; i++)
            if (level[i] > depth) { members[i] = word "." members[i]; level[i] = depth }
        members[n] = word; level[n++] = depth
    }
    next
}
/^[A-Za-z_]/ { word = $0 }
' "$work/tokens" >"$work/list"

# Constants that are macros. The initialiser of ncclConfig_t is compared byte by byte.
gcc -std=gnu11 -E -dD -I"$source_dir" "$work/ours.h" |
    sed -n 's/^#define \(\(CU\|NCCL\)[A-Z0-9_]*\) .*/\1/p' | grep -v '^NCCL_CONFIG_INITIALIZER$' |
    sed 's/.*/MACRO(&)/' >>"$work/list"

{
    cat <<'END'
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include HEADERS
#define VALUE(name) printf("value %s = %lld\n", #name, (long long)name);
#define MACRO(name) printf("macro %s = %lld\n", #name, (long long)(intptr_t)(name));
#define TYPE(name)                                                                                 \
    printf("type %s: %zu bytes, alignment %zu\n", #name, sizeof(name), _Alignof(name));
#define MEMBER(type, path)                                                                         \
    printf("member %s.%s: %zu bytes at %zu\n", #type, #path, sizeof(((type *)0)->path),            \
           offsetof(type, path));
int main(void)
{
END
    cat "$work/list"
    cat <<'END'
    static ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    printf("NCCL_CONFIG_INITIALIZER");
    for (size_t i = 0; i < sizeof config; i++)
        printf(" %02x", ((unsigned char *)&config)[i]);
    printf("\n");
    return 0;
}
END
} >"$work/probe.c"

gcc -std=gnu11 -DHEADERS='"ours.h"' -I"$source_dir" -I"$work" "$work/probe.c" -o "$work/ours"
gcc -std=gnu11 -DHEADERS='"theirs.h"' -I"$work" -isystem "$cuda_include" \
    -isystem "$nccl_include" "$work/probe.c" -o "$work/theirs"
"$work/ours" | grep -vE "$newer" | sort >"$work/ours.txt"
"$work/theirs" | grep -vE "$newer" | sort >"$work/theirs.txt"
diff "$work/ours.txt" "$work/theirs.txt"

for kind in value macro type member; do
    count=$(grep -c "^$kind " "$work/ours.txt")
    echo "$count of kind $kind agree"
    [ "$count" -gt 0 ]
done
