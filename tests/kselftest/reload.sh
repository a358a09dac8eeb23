#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The module goes and comes back: not while somebody uses it, and then with nothing left over.
# RKFD_MODULE is the file to load again.

module=${RKFD_MODULE:-/lib/modules/rkfd.ko}
rounds=3
number=0
failed=0

say() {
	number=$((number + 1))
	if [ "$1" = 0 ]; then
		echo "ok $number reload.$2"
	else
		echo "not ok $number reload.$2"
		failed=1
	fi
}

echo "KTAP version 1"
if [ ! -d /sys/module/rkfd ] || [ ! -e "$module" ]; then
	echo "1..1"
	echo "ok 1 reload # SKIP rkfd is not loaded from $module"
	exit 0
fi
echo "1..$((rounds * 4 + 1))"

# An open file holds the module.
exec 9<>/dev/kfd
if rmmod rkfd 2>/dev/null; then rc=1; else rc=0; fi
exec 9>&-
say $rc an_open_file_holds_the_module
[ -d /sys/module/rkfd ] || insmod "$module"

for round in $(seq $rounds); do
	rmmod rkfd
	say $? "rmmod_$round"
	# Nothing of it is left.
	if [ -e /dev/kfd ] || [ -e /sys/class/kfd ] || [ -e /sys/kernel/debug/kfd ] || ls /dev/dri/renderD* >/dev/null 2>&1; then
		ls -d /dev/kfd /sys/class/kfd /sys/kernel/debug/kfd /dev/dri/renderD* 2>/dev/null | sed 's/^/# failed: left over: /'
		say 1 "nothing_is_left_$round"
	else
		say 0 "nothing_is_left_$round"
	fi
	insmod "$module"
	say $? "insmod_$round"
	version >/tmp/reload.out 2>&1
	rc=$?
	[ $rc = 0 ] || sed 's/^/# /' /tmp/reload.out
	say $rc "works_again_$round"
done
exit $failed
