// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Fault injection: named values that make the card misbehave.
//!
//! Set at start by `--knob NAME=VALUE` and at run time through the control socket. Zero is off.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! knobs {
    ($($field:ident = $name:literal, $help:literal;)*) => {
        /// All knobs.
        #[derive(Default)]
        pub struct Knobs {
            $(#[doc = $help] pub $field: Knob,)*
        }

        impl Knobs {
            /// Name and meaning of every knob, for `--help`.
            pub const LIST: &'static [(&'static str, &'static str)] = &[$(($name, $help)),*];

            fn find(&self, name: &str) -> Option<&Knob> {
                match name {
                    $($name => Some(&self.$field),)*
                    _ => None,
                }
            }
        }
    };
}

knobs! {
    hws_no_preempt = "hws.no_preempt",
        "1: preemption by the scheduler firmware never completes; 2: the same, but the firmware \
        times out after the unmap latency and reports compute queues in the HIQ's MQD";
    hws_hang_xcc = "hws.hang_xcc", "N: hws.no_preempt=1 on physical XCC N-1 only";
    hws_stuck_xcc = "hws.stuck_xcc",
        "N: waves on physical XCC N-1 are not preempted (N=1: the queues with waves there on no \
        XCC): its firmware times out after the unmap latency and reports their queues in its \
        HIQ's MQD";
    hws_fence_never = "hws.fence_never",
        "1: the scheduler firmware never writes its completion fence";
    hws_op = "hws.op",
        "N: hws.drop and hws.hang_op count the packets of opcode N in the HIQ, 256 + N those in \
        KIQs; packets in IBs, thus those of a runlist, are not counted";
    hws_drop = "hws.drop",
        "N: the N-th packet that hws.op selects is consumed, but not executed";
    hws_hang_op = "hws.hang_op",
        "N: the ring stops at the N-th packet that hws.op selects, until it is mapped again";
    kiq_late = "kiq.late", "MS: a KIQ begins to unmap the HIQ MS milliseconds late";
    ih_drop_msi = "ih.drop_msi", "N: the next N interrupt messages are lost";
    ih_node = "ih.node",
        "N: interrupt entries of VMIDs from 3 on have NODE_ID N-1, whichever engine raises them";
    ih_retry_ring = "ih.retry_ring", "1: the interrupts of retry faults go to ring 1";
    ih_storm = "ih.storm",
        "N: every N-th entry of interrupt ring 0 is written 10,000 times, so that the ring \
        overflows";
    ih_vmid = "ih.vmid",
        "N: interrupt entries of VMIDs from 3 on have VMID N, and the PASID of the actual VMID";
    ih_wptr_dwords = "ih.wptr_dwords",
        "N: the write pointer of interrupt ring 0 in memory is N dwords beyond the last entry";
    nbio_a0 = "nbio.a0", "1: the silicon has revision 0 (A0)";
    nbio_baco = "nbio.baco",
        "1: BACO_EN and BACO_DUMMY_EN are set when the card comes up (NBIO 7.9)";
    sdma_hang = "sdma.hang",
        "N: the SDMA engine that executes the N-th IB of a job (VMID other than 0) in a kernel \
        ring hangs there until it is reset";
    sdma_no_stop = "sdma.no_stop",
        "1: a kernel ring that is disabled while an SDMA engine executes its packets stays enabled, \
        until the engine is reset";
    sdma_lose_trap = "sdma.lose_trap",
        "N: every N-th TRAP after a job in a kernel ring raises no interrupt";
    sdma_late_fence = "sdma.late_fence",
        "MS: fences in kernel rings are written MS milliseconds late, while the SDMA engine continues";
    sdma_copy_fault = "sdma.copy_fault",
        "N: the N-th COPY of jobs in kernel rings faults on its destination";
    cp_stall = "cp.stall",
        "MASK: at doorbell number n of AQL queues of user space the packet processor stalls if \
        bit n-1 is set: it takes no packet of that queue until its next doorbell, or until it is \
        mapped again";
    cp_pipe_reset = "cp.pipe_reset",
        "1: the reset of a compute queue of user space has no effect, only that of its pipe has";
    cp_kiq_active = "cp.kiq_active",
        "1: the slots of the KIQs are active when the card comes up other than by a mode-1 reset, \
        with pointers that are not 0, and execute no request to dequeue until they are activated \
        (gfx9; applies at start and at reset)";
    cp_poison = "cp.poison",
        "N: the N-th dispatch in AQL queues of user space reads poison: its waves halt and the SQ \
        reports an error";
    sdma_poison = "sdma.poison",
        "N: the N-th COPY in user queues reads poison: the SDMA engine hangs in it and reports an \
        ECC error";
    sdma_stall = "sdma.stall",
        "N: the SDMA engine that executes the N-th COPY in user queues hangs in it until it is \
        reset, and reports nothing";
    smu_throttle = "smu.throttle",
        "N: with each of the next N dispatches in AQL queues the SMU reports that it throttles \
        the card, because of power and the temperature of the memory";
    smu_late = "smu.late",
        "MS: the SMU has the first sample of its metrics MS milliseconds after its features were \
        enabled";
    smu_no_policy = "smu.no_policy", "N: the next N messages to the SMU that select a policy fail";
    smu_silent = "smu.silent",
        "N: the next N messages to the SMU but mode-1 resets are not executed and have no response";
    smu_no_limit = "smu.no_limit",
        "N: the next N messages to the SMU that limit power or clocks fail";
    smu_no_sdma_reset = "smu.no_sdma_reset",
        "N: the next N messages to the SMU that reset SDMA engines fail";
    smu_no_highest = "smu.no_highest",
        "N: the next N messages to the SMU that limit a clock from above, other than the shader \
        clock, fail";
    smu_no_metrics = "smu.no_metrics",
        "N: the next N messages to the SMU for its metrics fail, as the firmware is busy";
    smu_i2c_busy = "smu.i2c_busy",
        "N: the next N I2C transactions of the SMU fail, as another master has the bus";
    fru_bad_checksum = "fru.bad_checksum",
        "1: the product area in the FRU EEPROM has a wrong checksum (applies at start)";
    mes_no_status = "mes.no_status",
        "N: the status of the N-th MES frame about user queues is never written";
    mes_error = "mes.error",
        "N: the N-th MES frame about user queues is not executed, its status is an error";
    mes_op = "mes.op",
        "N: mes.error, mes.no_status and mes.hang count the frames of opcode N on both pipes, \
        instead of those about user queues; 256 + N is the sub-opcode N of MISC, 512 is \
        SET_HW_RSRC, whose opcode is 0";
    mes_hang = "mes.hang",
        "N: MES hangs at the N-th frame about user queues, on both pipes, until the card is reset";
    mes_late = "mes.late",
        "MS: the status of a MES frame about user queues, and of a query after it, is delayed by \
        MS milliseconds, while MES continues";
    pci_gone = "pci.gone",
        "1: the card has left the bus: of the accesses to its configuration space and BARs, but \
        not to the mapped VRAM, reads return all ones and writes are lost; at 0 it is back, as \
        after power-on (by the control socket only)";
    pci_power_on = "pci.power_on",
        "1: a reset of the bus, which otherwise is one of the function, is a power-on of the card: \
        no firmware runs, VRAM is lost";
    rlc_silent = "rlc.silent", "N: the RLC does not respond to the next N requests of safe mode";
    psp_error = "psp.error",
        "N: the N-th command in the PSP ring is not executed, its status is an error";
    psp_status = "psp.status",
        "N: the N-th command in the PSP ring is executed, but its status is an error";
    psp_no_partition = "psp.no_partition",
        "MASK: of the commands that divide the card into partitions, number n is not executed if \
        bit n-1 is set, its status is an error";
    psp_no_fence = "psp.no_fence",
        "N: the fence of the N-th command in the PSP ring is never written";
    psp_flags = "psp.flags",
        "N: C2PMSG_33 has these bits in addition to bit 31 (applies at start and at mode-1 resets)";
    psp_boot_ms = "psp.boot_ms",
        "MS: after power-on and mode-1 resets the boot loader is ready MS milliseconds after the \
        first read of its registers, and C2PMSG_33 has no bit 31 until then";
    psp_other_os = "psp.other_os",
        "1: the secure OS that runs on a warm card (--boot warm) is of another version than the \
        file's (applies at start)";
    psp_dead = "psp.dead", "1: the PSP boot loader does not respond (until the next reset)";
    gmc_fb_lost = "gmc.fb_lost",
        "1: MC_VM_FB_LOCATION_BASE and _TOP are 0 after a reset of the card; 2: the same after the \
        next reset only (applies at reset)";
    gmc_semaphore = "gmc.semaphore",
        "1: another agent has the semaphore of invalidation engine 17 of MMHUB after a reset of \
        the card, until it is released (gfx12; applies at start and at reset)";
    gmc_lose_ack = "gmc.lose_ack",
        "N: the ACKs of the next N invalidations of VMID 0 by engine 17 of a hub are lost: they are \
        executed";
    discovery_no_nps = "discovery.no_nps",
        "1: the IP discovery binary has no table of memory partitions (applies at reset)";
    discovery_bad_checksum = "discovery.bad_checksum",
        "1: the IP discovery binary has a wrong checksum (applies at reset)";
    discovery_moved = "discovery.moved",
        "1: the IP discovery binary is 1 MiB before its usual place, and DRIVER_SCRATCH_0 to 2 \
        say where (applies at reset)";
    discovery_sizes = "discovery.sizes",
        "1: the header of the IP discovery binary has major version 0, and sizes of tables that \
        are 0: only the tables themselves have theirs (applies at reset)";
    discovery_repeated = "discovery.repeated",
        "1: the IP discovery binary lists the last IP block twice (applies at reset)";
}

/// A value that may change at any time, and how often it has injected its fault.
#[derive(Default)]
pub struct Knob {
    value: AtomicU64,
    hits: AtomicU64,
}

impl Knob {
    /// Returns the value.
    pub fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }

    /// Returns whether the value is not zero.
    pub fn on(&self) -> bool {
        self.get() != 0
    }

    /// Sets the value.
    pub fn set(&self, value: u64) {
        self.value.store(value, Ordering::Relaxed);
    }

    /// Counts an injected fault. [`Self::reach`] and [`Self::take`] count by themselves.
    pub fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of injected faults.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    fn decrement(&self) -> Option<u64> {
        let less = |v: u64| v.checked_sub(1);
        self.value
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .ok()
    }

    /// Decrements the value; returns whether it became zero.
    pub fn reach(&self) -> bool {
        let reached = self.decrement() == Some(1);
        if reached {
            self.hit();
        }
        reached
    }

    /// Takes bit 0 of a mask, which the other bits follow; returns whether it was set.
    pub fn shift(&self) -> bool {
        let shifted = |v: u64| Some(v >> 1);
        let before = self
            .value
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, shifted);
        let taken = before.is_ok_and(|v| v & 1 != 0);
        if taken {
            self.hit();
        }
        taken
    }

    /// Decrements the value; returns false if it was zero already.
    pub fn take(&self) -> bool {
        let taken = self.decrement().is_some();
        if taken {
            self.hit();
        }
        taken
    }
}

impl Knobs {
    /// Sets the knob `name`; returns false if it does not exist.
    pub fn set(&self, name: &str, value: u64) -> bool {
        self.find(name).map(|k| k.set(value)).is_some()
    }

    /// Returns the knob `name`.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.find(name).map(Knob::get)
    }

    /// Returns how often the knob `name` has injected its fault.
    pub fn hits(&self, name: &str) -> Option<u64> {
        self.find(name).map(Knob::hits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_knobs_are_settable_and_count_down() {
        let knobs = Knobs::default();
        for (name, _) in Knobs::LIST {
            assert!(knobs.set(name, 2));
            assert_eq!(knobs.get(name), Some(2));
        }
        assert!(!knobs.set("no.such", 1));
        assert!(knobs.ih_drop_msi.take() && knobs.ih_drop_msi.take());
        assert!(!knobs.ih_drop_msi.take());
        assert!(!knobs.sdma_hang.reach() && knobs.sdma_hang.reach());
        assert!(!knobs.sdma_hang.reach());
        assert!(!knobs.psp_no_partition.shift() && knobs.psp_no_partition.shift());
        assert!(!knobs.psp_no_partition.shift());
        assert_eq!(knobs.hits("psp.no_partition"), Some(1));
        assert_eq!(knobs.hits("ih.drop_msi"), Some(2));
        assert_eq!(knobs.hits("sdma.hang"), Some(1));
        assert_eq!(knobs.hits("psp.dead"), Some(0));
    }
}
