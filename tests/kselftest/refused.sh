#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Tests values of module parameters with which the module is refused, with a message. RKFD_MODULE is
# the module file.

program=refused
# shellcheck source=tests/kselftest/ktap.sh
. "$(dirname "$0")/ktap.sh"

echo "KTAP version 1"
need_module
echo "1..10"

rmmod rkfd
for value in sched_policy=2 sched_policy=-1 cwsr_enable=0 noretry=2 noretry=-2 user_queue=2 \
	max_num_of_queues_per_device=0 max_num_of_queues_per_device=4097 queue_preemption_timeout_ms=0; do
	mark_log
	insmod "$module" "$value" 2>&1 | grep -q 'Invalid argument' &&
		log_since_mark | grep -q "rkfd: ${value%=*} is ${value#*=}"
	say $? "$(echo "$value" | tr '=-' _m)"
done
insmod "$module" sched_policy=0 cwsr_enable=1 noretry=1
works "works_with_accepted_values"
exit $failed
