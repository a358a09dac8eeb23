// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Binds the constants of the user space interface, from the kernel source tree that
//! `RKFD_KERNEL_SRC` names.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-env-changed=RKFD_KERNEL_SRC");
    let kernel = env::var("RKFD_KERNEL_SRC").expect("run in the build root: scripts/in-root");
    let out = env::var("OUT_DIR").expect("set by cargo");
    let include = Path::new(&kernel).join("include/uapi");
    let header = include.join("linux/kfd_ioctl.h");
    println!("cargo::rerun-if-changed={}", header.display());
    let status = Command::new("bindgen")
        .arg(&header)
        .args(["--use-core", "--no-layout-tests", "--rust-target", "1.85"])
        .args(["--allowlist-item", "KFD_.*|kfd_ioctl_svm_location.*"])
        .args(["--allowlist-item", "HSA_(CAP|DBG)_.*"])
        .args(["--allowlist-item", "AMDGPU_(FAMILY|VRAM_TYPE)_.*"])
        .arg("-o")
        .arg(Path::new(&out).join("uapi.rs"))
        .args(["--", "-w", "-D__user="])
        .args(["-include", "linux/kfd_sysfs.h"])
        .args(["-include", "drm/amdgpu_drm.h"])
        .arg(format!("-I{}", include.display()))
        .status()
        .expect("bindgen");
    assert!(status.success(), "bindgen failed for {}", header.display());
}
