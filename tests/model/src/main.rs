// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rkfd-gpu`: serves one model GPU on a vfio-user socket.

fn main() {
    println!("{}", gpu_model::chips::mi300x::CHIP.name);
}
