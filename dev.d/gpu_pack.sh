# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# make_pack BUILD PACK: a folder with what a machine needs to run the examples that has neither Open MPI
# nor hwloc, json-c and oneDNN. Sourced.

# What the machine has if it runs anything: the C library goes with its kernel and its loader.
system_pattern='^(linux-vdso|ld-linux.*|libc|libm|libdl|libpthread|librt|libresolv|libutil)[.]so'

# libraries_of FILE…: the shared libraries that the loader finds for them.
libraries_of() {
    ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u
}

# pack_libraries FILE…: copies those that the machine may not have.
pack_libraries() {
    local library
    libraries_of "$@" | while read -r library; do
        [[ $(basename "$library") =~ $system_pattern ]] || cp -Lu "$library" "$pack/lib/"
    done
}

# pack_plugins FROM TO: copies the plugins that need no library which is not packed; the others are
# for networks.
pack_plugins() {
    local packed
    packed=$(CDPATH='' cd -- "$pack/lib" && echo *.so.*)
    mkdir -p "$2"
    ldd "$1"/*.so 2>/dev/null | awk -v packed="$packed" -v system_pattern="$system_pattern" '
        function end() { if (plugin && !foreign) print plugin }
        BEGIN { split(packed, names, " "); for (i in names) known[names[i]] = 1 }
        /^\// { end(); plugin = substr($1, 1, length($1) - 1); foreign = 0 }
        $2 == "=>" && !($1 in known) && $1 !~ system_pattern { foreign = 1 }
        END { end() }' | xargs -r cp -L -t "$2"
}

# The folder NAME of Open MPI.
mpi_folder() {
    ompi_info --path "$1" | sed 's/.*: //'
}

make_pack() {
    local build=$1 pack=$2 pmix dnnl example
    # Both are loaded by name, so that no program says where they are. ldconfig is in nobody's PATH but root's.
    pmix=$(libraries_of "$(mpi_folder pkglibdir)"/mca_pmix_ext*.so | grep '/libpmix\.so' || true)
    dnnl=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p | awk '/libdnnl\.so\.[0-9]/ && !found { found = $NF } END { print found }')
    [ -n "$pmix" ] || {
        echo "gpu_pack: Open MPI's plugin for PMIx ($(mpi_folder pkglibdir)/mca_pmix_ext*.so) or its libpmix.so is not there" >&2
        return 1
    }
    [ -n "$dnnl" ] || {
        echo "gpu_pack: ldconfig -p lists no libdnnl.so; install libdnnl-dev, or run ldconfig where it lies" >&2
        return 1
    }
    rm -rf "$pack"
    mkdir -p "$pack"/{bin,lib,etc,examples}
    cp "$build/bin/kern-rank" "$build/bin/kern" "$pack/bin/"
    cp -L "$(command -v mpirun)" "$pack/bin/mpirun"
    cp "$build/lib/libkern-emu.so" "$pack/lib/"
    cp -r "$build/kernels" "$pack/"
    find "$pack/kernels" -type f ! -name '*.so' -delete
    find "$pack/kernels" -mindepth 1 -type d -empty -delete
    rm -rf "$pack/kernels/CMakeFiles"
    for example in "$build"/examples/*/; do
        [ -z "$(find "$example" -name model.json)" ] || cp -r "$example" "$pack/examples/"
    done
    rm -rf "$pack"/examples/*/CMakeFiles "$pack"/examples/*/cmake_install.cmake
    if [ -d "$pack/examples/stories" ]; then
        cp -rL "$(sed -n 's/^KERN_STORIES:PATH=//p' "$build/CMakeCache.txt")" "$pack/examples/stories/checkpoint"
    fi

    cp -L "$pmix" "$dnnl" "$pack/lib/"
    pack_libraries "$pack"/bin/* "$pack"/lib/*
    pack_plugins "$(mpi_folder pkglibdir)" "$pack/lib/openmpi"
    pack_plugins "$(dirname "$(readlink -f "$pmix")")/pmix" "$pack/lib/pmix"
    cp -rL "$(mpi_folder pkgdatadir)" "$pack/share-openmpi"
    cp "$(dirname "${BASH_SOURCE[0]}")/gpu_run.sh" "$pack/run.sh"
    chmod +x "$pack/run.sh"
}
