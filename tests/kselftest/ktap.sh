#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Shared by the test scripts, which set $program to their name; not a test.

number=0
failed=0
mark=

# The module file, from which tests load rkfd.
module=${RKFD_MODULE:-/lib/modules/rkfd.ko}

# skip_all REASON: ends the script without a test.
skip_all() {
	echo "1..1"
	echo "ok 1 $program # SKIP $1"
	exit 0
}

# need_module: skips all tests without the module file.
need_module() { [ -e "$module" ] || skip_all "no $module"; }

# say STATUS NAME: prints the result of a test.
say() {
	number=$((number + 1))
	if [ "$1" = 0 ]; then
		echo "ok $number $program.$2"
	else
		echo "not ok $number $program.$2"
		failed=1
	fi
}

# works NAME: tests that `version` passes.
works() {
	version >"/tmp/$program.out" 2>&1
	rc=$?
	[ $rc = 0 ] || sed 's/^/# /' "/tmp/$program.out"
	say $rc "$1"
}

# The kernel log is read from a mark on, without one from its start, and never cleared, as others
# read it, too.
mark_log() {
	mark="kselftest: $program $$ $number"
	echo "$mark" >/dev/kmsg
}
log_since_mark() { if [ -n "$mark" ]; then dmesg | sed "1,/$mark\$/d"; else dmesg; fi; }
