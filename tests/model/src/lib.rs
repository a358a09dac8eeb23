// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A software model of an AMD Instinct GPU, served to QEMU over vfio-user.
