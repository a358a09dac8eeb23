#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The card's firmware: a file that cannot be used is named in one line, with the package to install, and the driver
# leaves nothing behind; with good files the card comes up again.
#
# usage: firmware.sh                    takes the files away, cuts and changes them; the driver is bound again and again
#        firmware.sh fails PATTERN      the driver could not bring the card up and said PATTERN; it does when asked again
#        firmware.sh dead PATTERN       the same with a card that is past help
#
# What is said is rkfd's own, so this is not for the stock driver.

files=/lib/firmware/amdgpu
kept=/tmp/firmware-kept
driver=/sys/bus/pci/drivers/rkfd
number=0
failed=0

say() {
	number=$((number + 1))
	if [ "$1" = 0 ]; then
		echo "ok $number firmware.$2"
	else
		echo "not ok $number firmware.$2"
		failed=1
	fi
}

echo "KTAP version 1"
if [ ! -d "$driver" ]; then
	echo "1..1"
	echo "ok 1 firmware # SKIP the driver is not rkfd, whose words this looks for"
	exit 0
fi

# The GPU is not there for anybody.
absent() {
	! ls /dev/dri/renderD* >/dev/null 2>&1 && ! grep -qs '[1-9]' /sys/class/kfd/kfd/topology/nodes/*/gpu_id
}

# said PATTERN: exactly one line has it.
said() {
	[ "$(dmesg | grep -c -- "$1")" = 1 ] && return
	echo "# failed: not one line with '$1':"
	dmesg | grep -i 'rkfd\|firmware' | sed 's/^/# /'
	return 1
}

# refused NAME PATTERN: with the files as they are the card does not come up.
refused() {
	dmesg -c >/dev/null
	rc=0
	echo "$card" 2>/dev/null >"$driver/bind" && { echo "# failed: it was bound"; rc=1; }
	said "$2" || rc=1
	absent || { echo "# failed: something was left"; rc=1; }
	[ ! -e "$driver/$card" ] || echo "$card" >"$driver/unbind"
	say $rc "$1"
	cp "$kept"/* "$files"
}

works() {
	version >/tmp/firmware.out 2>&1
	rc=$?
	[ $rc = 0 ] || sed 's/^/# /' /tmp/firmware.out
	say $rc "$1"
}

# byte FILE OFFSET: another value there.
byte() {
	printf '\125' | dd of="$files/$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

case ${1-} in
fails | dead)
	[ "$1" = dead ] && echo "1..3" || echo "1..4"
	said "$2"
	say $? "is_said"
	absent
	say $? "nothing_is_left"
	if [ "$1" = fails ]; then
		for card in /sys/bus/pci/devices/*; do
			[ "$(cat "$card/class")" = 0x120000 ] && break
		done
		echo "$(basename "$card")" >"$driver/bind"
		say $? "the_next_time_it_comes_up"
		works "works"
	else
		rmmod rkfd
		say $? "the_driver_goes"
	fi
	exit $failed
	;;
esac

echo "1..14"
card=
for card in "$driver"/*:*; do card=$(basename "$card"); done
mkdir -p "$kept"
cp "$files"/* "$kept"
echo "$card" >"$driver/unbind"
for file in gc_9_4_3_mec gc_9_4_3_rlc sdma_4_4_2 psp_13_0_6_sos psp_13_0_6_ta; do
	rm "$files/$file.bin"
	refused "${file}_is_missing" "amdgpu/$file.bin is missing: install firmware-amd-graphics"
done
dd if="$kept/gc_9_4_3_mec.bin" of="$files/gc_9_4_3_mec.bin" bs=300 count=1 2>/dev/null
refused "a_file_is_cut" "amdgpu/gc_9_4_3_mec.bin is truncated.*install firmware-amd-graphics"
dd if="$kept/sdma_4_4_2.bin" of="$files/sdma_4_4_2.bin" bs=20 count=1 2>/dev/null
refused "a_header_is_cut" "amdgpu/sdma_4_4_2.bin is truncated.*install firmware-amd-graphics"
: >"$files/psp_13_0_6_ta.bin"
refused "a_file_is_empty" "amdgpu/psp_13_0_6_ta.bin cannot be read, or is empty.*install firmware-amd-graphics"
cp "$kept/gc_9_4_3_rlc.bin" "$files/gc_9_4_3_mec.bin"
refused "a_file_is_of_another_version" "amdgpu/gc_9_4_3_mec.bin is of the wrong version.*install firmware-amd-graphics"
cp "$kept/gc_9_4_3_mec.bin" "$files/sdma_4_4_2.bin"
refused "a_file_is_for_another_block" "amdgpu/sdma_4_4_2.bin is the wrong firmware.*install firmware-amd-graphics"
byte gc_9_4_3_rlc.bin $((256 + 16))
refused "a_file_has_no_signature" "amdgpu/gc_9_4_3_rlc.bin is damaged.*install firmware-amd-graphics"
byte gc_9_4_3_mec.bin 4096
refused "a_file_is_damaged" "refuses the compute engine firmware of amdgpu/gc_9_4_3_mec.bin"
echo "$card" >"$driver/bind"
say $? "good_files_again"
works "works"
exit $failed
