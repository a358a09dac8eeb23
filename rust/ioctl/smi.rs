// SPDX-License-Identifier: GPL-2.0

//! `SMI_EVENTS`.

use kernel::{prelude::*, sync::Arc};

use crate::{
    process::{smi::Client, Process},
    uapi::*,
};

pub(super) fn events(process: &Arc<Process>, args: &mut kfd_ioctl_smi_events_args) -> Result {
    let gpu = process.device(args.gpuid)?.gpu();
    args.anon_fd = Client::open(gpu)?;
    Ok(())
}
