#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Tests that a card which is the display of the boot can be bound: the frame buffer of the firmware
# (tests/bootfb) has the start of BAR 0, and is removed. RKFD_MODULE is the module file of rkfd.

program=boot-display
# shellcheck source=tests/kselftest/ktap.sh
. "$(dirname "$0")/ktap.sh"

framebuffer=$(dirname "$0")/bootfb.ko
driver=/sys/bus/pci/drivers/rkfd

echo "KTAP version 1"
need_module
card=
for card in "$driver"/*:*; do card=$(basename "$card"); done
case $(cat "/sys/bus/pci/devices/$card/class") in
0x0300* | 0x0380*) ;;
*) skip_all "the card is no display" ;;
esac
echo "$card" >"$driver/unbind"
if ! insmod "$framebuffer" 2>/dev/null; then
	echo "$card" >"$driver/bind"
	skip_all "bootfb is no module of this kernel"
fi
echo "1..4"

owners() { grep -c bootfb /proc/iomem; }

[ "$(owners)" != 0 ]
say $? "firmware_has_the_display"
echo "$card" >"$driver/bind"
say $? "bind"
[ "$(owners)" = 0 ] && [ ! -e /sys/bus/platform/devices/bootfb ]
say $? "display_is_removed"
rmmod bootfb
works "works"
exit $failed
