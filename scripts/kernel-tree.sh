# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Prepares a kernel tree with the Rust crates that Debian's headers package lacks. Sourced by
# scripts that define in_root, which runs a command where the compilers are.

# config_value NAME FILE...: prints the value of CONFIG_NAME in the first configuration that has it.
config_value() {
	local name=$1
	shift
	sed -n "s/^CONFIG_$name=\"\{0,1\}\([^\"]*\)\"\{0,1\}$/\1/p" "$@" 2>/dev/null | head -n 1
}

# kernel_make RELEASE ARGUMENT...: make as Debian builds its kernel RELEASE.
kernel_make() {
	local rel=$1 rust
	shift
	rust=$(in_root rustc --version | awk '{ print $2 }')
	in_root env RUST_LIB_SRC="/usr/src/rustc-$rust/library" make CC=x86_64-linux-gnu-gcc-14 HOSTCC=gcc-14 \
		LOCALVERSION="${rel#"${rel%%+*}"}" "$@"
}

# prepare_kernel RELEASE SOURCE CONFIG SYMVERS BUILD: builds the crates in BUILD from SOURCE with
# Debian's configuration and compilers, so that their symbols are those of the stock kernel.
prepare_kernel() {
	local rel=$1 source=$2 config=$3 symvers=$4 build=$5
	rm -rf "$build"
	mkdir -p "$build"
	cp "$config" "$build/.config"
	kernel_make "$rel" -C "$source" -j"$(nproc)" O="$build" olddefconfig prepare modules_prepare
	cp "$symvers" "$build/Module.symvers"
}

# verify_kernel BUILD: compares the exports of the crates with those of the stock kernel. A module
# built on crates whose symbols differ does not load.
verify_kernel() {
	local build=$1 ours theirs missing
	ours=$(sed -n 's/^EXPORT_SYMBOL_RUST_GPL(\(.*\));$/\1/p' "$build"/rust/exports_*_generated.h | sort -u)
	theirs=$(awk '{ print $2 }' "$build/Module.symvers" | sort -u)
	[ -n "$ours" ] || { echo "the build generated no Rust exports"; return 1; }
	missing=$(comm -23 <(echo "$ours") <(echo "$theirs") | wc -l)
	echo "$(wc -l <<<"$ours") Rust exports, $missing of them missing in the stock kernel"
	[ "$missing" = 0 ]
}
