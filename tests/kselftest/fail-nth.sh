#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# usage: fail-nth.sh GROUP...
#
# run-tests.sh GROUP... with failing memory allocations in each call of the driver, see
# tests/workloads/fail-nth.c. Needs a kernel with fault injection (KERNEL=debug), and prints how
# many allocations failed.

slab=/sys/kernel/debug/failslab
pages=/sys/kernel/debug/fail_page_alloc
most=1000000000

if [ ! -d $slab ] || [ ! -d $pages ]; then
	printf 'KTAP version 1\n1..1\n'
	echo "ok 1 fail-nth # SKIP the kernel has no fault injection"
	exit 0
fi
for attr in $slab $pages; do
	echo N >$attr/ignore-gfp-wait
	echo 0 >$attr/verbose
	echo $most >$attr/times
done
# All of tasks with 1 in /proc/PID/make-it-fail. Not pages, without which a page fault is repeated.
echo Y >$slab/task-filter
echo 100 >$slab/probability
echo 0 >$pages/min-order
echo N >$pages/ignore-gfp-highmem

# Each call is many: no test repeats anything.
KFD_FAIL_NTH=1 KTAP_REPEATS=0 run-tests.sh "$@"
status=$?

failed_slab=$((most - $(cat $slab/times)))
failed_pages=$((most - $(cat $pages/times)))
echo "# fail-nth: $failed_slab allocations of slabs and $failed_pages of pages failed"
printf 'KTAP version 1\n1..1\n'
if [ $failed_slab -gt 0 ] && [ $failed_pages -gt 0 ]; then
	echo "ok 1 fail-nth.allocations_fail"
else
	echo "not ok 1 fail-nth.allocations_fail"
	status=1
fi
exit $status
