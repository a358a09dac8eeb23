// SPDX-License-Identifier: GPL-2.0

//! `SMI_EVENTS`.

use kernel::{prelude::*, sync::Arc};

use crate::{
    process::{smi::SmiClient, Process},
    uapi::*,
};

/// `SMI_EVENTS`. `EINVAL` without such a GPU, otherwise as [`SmiClient::open`].
pub(super) fn events(process: &Arc<Process>, args: &mut kfd_ioctl_smi_events_args) -> Result {
    let node = process.device(args.gpuid)?.node();
    args.anon_fd = SmiClient::open(node, process.pids())?;
    Ok(())
}
