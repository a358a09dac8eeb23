// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Writes of the card to bus addresses that are not guest memory, as `DMA_WRITE` messages: the
//! client passes them through its IOMMU to the device that is there, which may be the card itself.
//!
//! The server of the `vfio_user` crate sends no messages of its own. The relay is between it and
//! the client, passes all messages on, and adds its own to those for the client. It adds latency to
//! each access of the guest, hence it is optional.

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use crate::event;
use crate::gpu::Gpu;
use crate::mailbox::{Mailbox, Recv};
use crate::strict;

const HEADER: usize = 16;
const DMA_WRITE: u16 = 12;
/// Bits of the flags.
const TYPE: u32 = 0xf;
const REPLY: u32 = 1;
const ERROR: u32 = 1 << 5;
/// Largest number of descriptors of a message.
const FDS: usize = 16;
/// Largest message: the client's limit of data and its header.
const MAX: usize = (1 << 20) + (1 << 12);

/// A posted write.
struct Posted {
    addr: u64,
    data: Vec<u8>,
}

/// The bus outside of guest memory.
#[derive(Default)]
pub struct Bus {
    connected: AtomicBool,
    mail: Mailbox<Posted>,
}

impl Bus {
    /// Posts a write. Returns false without a relay.
    pub fn post(&self, addr: u64, data: &[u8]) -> bool {
        if !self.connected.load(Ordering::Acquire) {
            return false;
        }
        let data = data.to_vec();
        self.mail.send(Posted { addr, data });
        true
    }
}

/// A message as read from a socket.
struct Message {
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
}

impl Message {
    /// Reads the next message; `None` at the end of the connection.
    fn read(from: &UnixStream) -> io::Result<Option<Self>> {
        let mut bytes = vec![0; HEADER];
        let mut fds = Vec::new();
        let mut have = 0;
        while have < HEADER {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut iov = [IoSliceMut::new(&mut bytes[have..])];
            let got = recvmsg(from, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC)?;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    fds.extend(received);
                }
            }
            if got.bytes == 0 {
                return Ok(None);
            }
            have += got.bytes;
        }
        let size = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
        if !(HEADER..=MAX).contains(&size) {
            return Err(io::Error::other(format!("message of {size} bytes")));
        }
        bytes.resize(size, 0);
        (&mut &*from).read_exact(&mut bytes[HEADER..])?;
        Ok(Some(Self { bytes, fds }))
    }

    fn write(&self, to: &UnixStream) -> io::Result<()> {
        let fds: Vec<_> = self.fds.iter().map(AsFd::as_fd).collect();
        let mut sent = 0;
        while sent < self.bytes.len() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if sent == 0 && !fds.is_empty() {
                control.push(SendAncillaryMessage::ScmRights(&fds));
            }
            let iov = [IoSlice::new(&self.bytes[sent..])];
            sent += sendmsg(to, &iov, &mut control, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    fn is_reply(&self) -> bool {
        self.flags() & TYPE == REPLY
    }

    fn flags(&self) -> u32 {
        self.word(8)
    }

    /// Returns the errno of a reply; 0 if it is none of an error.
    fn errno(&self) -> u32 {
        if self.flags() & ERROR == 0 {
            0
        } else {
            self.word(12)
        }
    }

    /// Returns the word at byte `at` of the header.
    fn word(&self, at: usize) -> u32 {
        let bytes = &self.bytes[at..at + 4];
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

/// Returns a `DMA_WRITE` message.
fn dma_write(id: u16, posted: &Posted) -> Message {
    let mut bytes = Vec::with_capacity(HEADER + 16 + posted.data.len());
    let size = HEADER + 16 + posted.data.len();
    bytes.extend(id.to_le_bytes());
    bytes.extend(DMA_WRITE.to_le_bytes());
    bytes.extend((size as u32).to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(posted.addr.to_le_bytes());
    bytes.extend((posted.data.len() as u64).to_le_bytes());
    bytes.extend(&posted.data);
    Message {
        bytes,
        fds: Vec::new(),
    }
}

/// Listens at `path`, and connects the client that comes to the server at `server`.
pub fn start(path: &Path, server: &Path, gpu: Arc<Gpu>) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    let server = server.to_path_buf();
    std::thread::Builder::new()
        .name("relay".into())
        .spawn(move || {
            if let Err(e) = serve(&listener, &server, &gpu) {
                eprintln!("rkfd-gpu: relay: {e}");
            }
        })?;
    Ok(())
}

fn serve(listener: &UnixListener, server: &Path, gpu: &Arc<Gpu>) -> io::Result<()> {
    let (client, _) = listener.accept()?;
    let server = UnixStream::connect(server)?;
    let to_client = Arc::new(Mutex::new(client.try_clone()?));
    let (replied, replies) = channel();
    let (from_server, shared) = (server.try_clone()?, to_client.clone());
    std::thread::spawn(move || {
        while let Ok(Some(message)) = Message::read(&from_server) {
            let to = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if message.write(&to).is_err() {
                break;
            }
        }
    });
    let bus = gpu.clone();
    std::thread::spawn(move || post(&bus, &to_client, &replies));
    gpu.dma.bus.connected.store(true, Ordering::Release);
    let result = forward(&client, &server, &replied);
    gpu.dma.bus.connected.store(false, Ordering::Release);
    // The server ends with its connection.
    server.shutdown(std::net::Shutdown::Both)?;
    result
}

/// Passes the client's messages on, except for replies to those of the relay.
fn forward(client: &UnixStream, server: &UnixStream, replied: &Sender<u32>) -> io::Result<()> {
    while let Some(message) = Message::read(client)? {
        if message.is_reply() {
            let _ = replied.send(message.errno());
        } else {
            message.write(server)?;
        }
    }
    Ok(())
}

/// Sends posted writes one after the other.
fn post(gpu: &Gpu, client: &Mutex<UnixStream>, replies: &Receiver<u32>) {
    let mut id = 0u16;
    while let Recv::Message(posted) = gpu.dma.bus.mail.recv(None) {
        id = id.wrapping_add(1);
        let sent = {
            let client = client.lock().unwrap_or_else(PoisonError::into_inner);
            dma_write(id, &posted).write(&client)
        };
        // Without a reply the client has disconnected.
        let errno = sent.map_or(Err(()), |()| replies.recv().map_err(|_| ()));
        let (addr, len) = (posted.addr, posted.data.len());
        event!(
            gpu.trace,
            "dma",
            "write",
            "addr={addr:#x} size={len:#x} errno={}",
            errno.map_or(-1, i64::from)
        );
        match errno {
            Ok(0) => {}
            Ok(errno) => strict!(
                gpu.strict,
                "dma",
                "write of {len} bytes to {addr:#x} failed with errno {errno}"
            ),
            Err(()) => break,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::sparse_file;
    use std::io::Write;

    #[test]
    fn messages_and_descriptors_pass() {
        let (mut client, relay) = UnixStream::pair().unwrap();
        let (relay2, server) = UnixStream::pair().unwrap();
        let file = sparse_file("t", 0x1000).unwrap();
        let sent = Message {
            bytes: dma_write(
                7,
                &Posted {
                    addr: 0x1234,
                    data: vec![1; 8],
                },
            )
            .bytes,
            fds: vec![file.into()],
        };
        sent.write(&client).unwrap();
        let passed = Message::read(&relay).unwrap().unwrap();
        assert_eq!(passed.fds.len(), 1);
        passed.write(&relay2).unwrap();
        let got = Message::read(&server).unwrap().unwrap();
        assert_eq!(got.bytes, sent.bytes);
        assert_eq!(got.fds.len(), 1);
        assert!(!got.is_reply());
        // Header, address and count in 32 bytes, then the data.
        assert_eq!(got.bytes.len(), 32 + 8);
        assert_eq!(got.bytes[4], 40);
        // In pieces, and too large.
        client.write_all(&got.bytes[..10]).unwrap();
        client.write_all(&got.bytes[10..]).unwrap();
        assert_eq!(Message::read(&relay).unwrap().unwrap().bytes, got.bytes);
        client.write_all(&[0xff; HEADER]).unwrap();
        assert!(Message::read(&relay).is_err());
        drop(client);
        assert!(Message::read(&relay).unwrap().is_none());
    }

    #[test]
    fn nothing_is_posted_without_a_client() {
        assert!(!Bus::default().post(0x1000, &[0; 4]));
    }
}
