# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Runs the example of Documentation/ci.rst as a test.
echo "KTAP version 1"
echo "1..1"
hipcc --offload-arch=gfx942 saxpy.hip -o saxpy && output=$(./saxpy)
case $?:$output in
"0:0 of 65536 wrong") echo "ok 1 example.saxpy" ;;
*)
	echo "# $output"
	echo "not ok 1 example.saxpy"
	exit 1
	;;
esac
