#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# usage: run-tests.sh GROUP...    runs the programs of these groups (see run-list)
#
# Fails if one of them does. Programs without KTAP output get one result line. Tests that cannot be
# the same on the driver $DRIVER are skipped, with the reason of the list `differ`.

list=$(dirname "$0")/run-list
failed=0
export KTAP_DIFFER="$(dirname "$0")/differ"

for group in "$@"; do
	grep "^$group " "$list" >/tmp/run-list.$$ || {
		echo "run-tests.sh: no group $group" >&2
		exit 2
	}
	while read -r _ program arguments; do
		reason=$(sed -n "s/^${DRIVER:-none} $program  *//p" "$KTAP_DIFFER")
		if [ -n "$reason" ]; then
			printf 'KTAP version 1\n1..1\nok 1 %s # SKIP %s\n' "$program" "$reason"
			continue
		fi
		start=$(cut -d. -f1 /proc/uptime)
		echo "# running $program $arguments"
		# shellcheck disable=SC2086
		{ "$program" $arguments </dev/null 2>&1; echo $? >/tmp/run-rc.$$; } |
			tee /tmp/run-out.$$
		rc=$(cat /tmp/run-rc.$$)
		if ! grep -q '^KTAP version' /tmp/run-out.$$; then
			echo "KTAP version 1"
			echo "1..1"
			[ $rc = 0 ] && echo "ok 1 $program" || echo "not ok 1 $program"
		fi
		if [ $rc != 0 ]; then
			failed=1
			# Without a failed test: killed by a signal, for example.
			grep -q '^not ok ' /tmp/run-out.$$ || echo "# $program failed: status $rc"
		fi
		echo "# $program: status $rc after $(($(cut -d. -f1 /proc/uptime) - start)) s"
	done </tmp/run-list.$$
done
rm -f /tmp/run-list.$$ /tmp/run-out.$$ /tmp/run-rc.$$
exit $failed
