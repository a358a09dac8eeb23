#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Tests firmware loading: an unusable file causes one log line with its name and the package to
# install, and probe leaves nothing behind; with good files probe succeeds again. What the PSP
# refuses causes a warning: the engine keeps its firmware, if it has one.
#
# usage: firmware.sh                    removes, truncates and changes files, each followed by bind
#        firmware.sh fails PATTERN      probe failed and logged PATTERN; the next bind succeeds
#        firmware.sh dead PATTERN       same with a card that needs a power cycle
#
# The log lines are rkfd's own: not for the C driver.

files=/lib/firmware/amdgpu
kept=/tmp/firmware-kept
driver=/sys/bus/pci/drivers/rkfd

program=firmware
# shellcheck source=tests/kselftest/ktap.sh
. "$(dirname "$0")/ktap.sh"

echo "KTAP version 1"
[ -d "$driver" ] || skip_all "not rkfd, whose log lines this test needs"

# Succeeds if there is neither a render node nor a GPU node.
absent() {
	! ls /dev/dri/renderD* >/dev/null 2>&1 &&
		! grep -qs '[1-9]' /sys/class/kfd/kfd/topology/nodes/*/gpu_id
}

# logged PATTERN: succeeds if exactly one log line since the mark matches.
logged() {
	[ "$(log_since_mark | grep -c -- "$1")" = 1 ] && return
	echo "# failed: expected exactly one line with '$1':"
	log_since_mark | grep -i 'rkfd\|firmware' | sed 's/^/# /'
	return 1
}

# refused NAME PATTERN: expects that probe fails with the current files; then restores them.
refused() {
	mark_log
	rc=0
	echo "$card" 2>/dev/null >"$driver/bind" && { echo "# failed: bind succeeded"; rc=1; }
	logged "$2" || rc=1
	absent || { echo "# failed: something left over"; rc=1; }
	[ ! -e "$driver/$card" ] || echo "$card" >"$driver/unbind"
	say $rc "$1"
	cp "$kept"/* "$files"
}

# warned NAME PATTERN: expects that probe warns of the current files and succeeds, with the firmware
# of the bind before; then restores them.
warned() {
	mark_log
	rc=0
	echo "$card" >"$driver/bind" || { echo "# failed: bind failed"; rc=1; }
	logged "$2" || rc=1
	[ ! -e "$driver/$card" ] || echo "$card" >"$driver/unbind"
	say $rc "$1"
	cp "$kept"/* "$files"
}

# byte FILE OFFSET: overwrites this byte.
byte() {
	printf '\125' | dd of="$files/$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

case ${1-} in
fails | dead)
	[ "$1" = dead ] && echo "1..3" || echo "1..4"
	logged "$2"
	say $? "message_logged"
	absent
	say $? "nothing_left"
	if [ "$1" = fails ]; then
		for card in /sys/bus/pci/devices/*; do
			[ "$(cat "$card/vendor")" = 0x1002 ] && break
		done
		echo "$(basename "$card")" >"$driver/bind"
		say $? "next_bind"
		works "works"
	else
		rmmod rkfd
		say $? "rmmod"
	fi
	exit $failed
	;;
esac

card=
for card in "$driver"/*:*; do card=$(basename "$card"); done
# Header versions of MEC and RLC differ, those of `other` and MEC or SDMA do not; the byte `bad` is
# one that the PSP checks.
case $(cat "/sys/bus/pci/devices/$card/device") in
0x7550)
	echo "1..18"
	mec=gc_12_0_1_mec rlc=gc_12_0_1_rlc sdma=sdma_7_0_1 empty=smu_14_0_3 other=psp_14_0_3_sos bad=$((256 + 0x58))
	all="$mec $rlc $sdma psp_14_0_3_sos smu_14_0_3 gc_12_0_1_pfp gc_12_0_1_me gc_12_0_1_uni_mes gc_12_0_1_imu"
	wrong=$mec corrupt=refused
	;;
*)
	echo "1..15"
	mec=gc_9_4_3_mec rlc=gc_9_4_3_rlc sdma=sdma_4_4_2 empty=psp_13_0_6_ta other=gc_9_4_3_mec bad=4096
	all="$mec $rlc $sdma psp_13_0_6_sos psp_13_0_6_ta smu_13_0_6"
	wrong=$sdma corrupt=warned
	;;
esac
mkdir -p "$kept"
cp "$files"/* "$kept"
echo "$card" >"$driver/unbind"
for file in $all; do
	rm "$files/$file.bin"
	refused "missing_${file}" "amdgpu/$file.bin.*missing.*firmware-amd-graphics"
done
dd if="$kept/$mec.bin" of="$files/$mec.bin" bs=300 count=1 2>/dev/null
refused "truncated_file" "amdgpu/$mec.bin.*truncated.*firmware-amd-graphics"
dd if="$kept/$sdma.bin" of="$files/$sdma.bin" bs=20 count=1 2>/dev/null
refused "truncated_header" "amdgpu/$sdma.bin.*truncated.*firmware-amd-graphics"
: >"$files/$empty.bin"
refused "empty_file" "amdgpu/$empty.bin.*empty.*firmware-amd-graphics"
cp "$kept/$rlc.bin" "$files/$mec.bin"
refused "wrong_header_version" "amdgpu/$mec.bin.*version.*firmware-amd-graphics"
cp "$kept/$other.bin" "$files/$wrong.bin"
refused "wrong_ip_block" "amdgpu/$wrong.bin.*wrong.*firmware-amd-graphics"
byte "$rlc.bin" $((256 + 16))
refused "missing_signature" "amdgpu/$rlc.bin.*signature.*firmware-amd-graphics"
byte "$mec.bin" "$bad"
"$corrupt" "corrupt_file" "firmware of amdgpu/$mec.bin"
echo "$card" >"$driver/bind"
say $? "bind_with_good_files"
works "works"
exit $failed
