//! What `lockhouse` and its warden say to each other: lines of text over a socket that is the warden's standard input.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::{fmt, io};

use lockhouse::Moment;
use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

/// What `lockhouse` tells its warden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The lock is held for certain until then.
    Until(Moment),
    /// Pass this signal on.
    Signal(i32),
    /// The lock is lost.
    Lost,
}

/// What the warden tells `lockhouse`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// The command cannot be started: `true` when there is no such command, and why.
    NotStarted(bool, String),
    /// The command is being stopped, since the time is up.
    Stopping,
    /// The command ended with this code.
    Exited(u8),
    /// A signal ended the command.
    Signaled(i32),
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Until(moment) => writeln!(f, "until {}", moment.as_nanos()),
            Self::Signal(signal) => writeln!(f, "signal {signal}"),
            Self::Lost => writeln!(f, "lost"),
        }
    }
}

impl Order {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("until", nanos) => nanos.parse().ok().map(|nanos| Self::Until(Moment::from_nanos(nanos))),
            ("signal", signal) => signal.parse().ok().map(Self::Signal),
            ("lost", "") => Some(Self::Lost),
            _ => None,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(true, why) => writeln!(f, "missing {}", why.replace('\n', " ")),
            Self::NotStarted(false, why) => writeln!(f, "refused {}", why.replace('\n', " ")),
            Self::Stopping => writeln!(f, "stopping"),
            Self::Exited(code) => writeln!(f, "exited {code}"),
            Self::Signaled(signal) => writeln!(f, "signaled {signal}"),
        }
    }
}

impl Report {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("missing", why) => Some(Self::NotStarted(true, why.to_owned())),
            ("refused", why) => Some(Self::NotStarted(false, why.to_owned())),
            ("stopping", "") => Some(Self::Stopping),
            ("exited", code) => code.parse().ok().map(Self::Exited),
            ("signaled", signal) => signal.parse().ok().map(Self::Signaled),
            _ => None,
        }
    }
}

/// The one byte that carries a file across.
const CARRIER: &[u8] = b"!";

/// Sends the standard input that the command is to have.
pub(crate) fn send_file(socket: &UnixStream, file: impl AsFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    let fits = ancillary.push(SendAncillaryMessage::ScmRights(&files));
    debug_assert!(fits, "the space is made for one file");
    rustix::net::sendmsg(socket, &[IoSlice::new(CARRIER)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives it. It is not inherited by accident: `CMSG_CLOEXEC`.
pub(crate) fn receive_file(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    // Room for the carrier alone, so that what follows it stays in the socket.
    let mut byte = [0; 1];
    let mut buffers = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(socket, &mut buffers, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let files = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    files.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "no file came with the first byte"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        for order in [Order::Until(Moment::from_nanos(7)), Order::Signal(15), Order::Lost] {
            assert_eq!(Order::parse(order.to_string().trim_end()), Some(order));
        }
        let reports = [
            Report::NotStarted(true, "no such file".into()),
            Report::NotStarted(false, "not yours".into()),
            Report::Stopping,
            Report::Exited(3),
            Report::Signaled(11),
        ];
        for report in reports {
            assert_eq!(Report::parse(report.to_string().trim_end()), Some(report));
        }
        assert_eq!((Order::parse("until x"), Report::parse("")), (None, None));
    }

    #[test]
    fn a_file_goes_across_and_leaves_the_rest_of_the_stream_alone() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        send_file(&here, writer).unwrap();
        (&here).write_all(b"lost\n").unwrap();
        let mut file = std::fs::File::from(receive_file(&there).unwrap());
        file.write_all(b"x").unwrap();
        drop((file, here));
        let (mut through, mut rest) = (String::new(), String::new());
        reader.read_to_string(&mut through).unwrap();
        (&there).read_to_string(&mut rest).unwrap();
        assert_eq!((through.as_str(), rest.as_str()), ("x", "lost\n"));
    }
}
