//! The same without async: for programs that have no runtime.
//!
//! ```
//! let locks = lockhouse::blocking::connect("memory:")?;
//! let guard = locks.mutex("orders/42").lock()?;
//! guard.check()?;
//! guard.release()?;
//! # Ok::<(), lockhouse::Error>(())
//! ```
//!
//! Must not be called from within an async task, whose thread it would block.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{self as core, Cell, Error, Guarantees, Kind, Line, Needs, PublicId, Release, Result, Written};
use tokio::runtime::{Builder, Runtime};

/// Connects to the engine at a URL: as [`connect`](crate::connect).
///
/// # Errors
/// As [`connect`](crate::connect).
pub fn connect(url: &str) -> Result<Locks> {
    let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("lockhouse-front").enable_all().build();
    let runtime = runtime.map_err(|error| Error::new(Kind::Engine, "no runtime can be started").because(error))?;
    let locks = runtime.block_on(crate::connect(url))?;
    Ok(Locks { locks, runtime: Arc::new(runtime) })
}

/// Locks on one engine: [`core::Locks`] without async.
#[derive(Debug, Clone)]
pub struct Locks {
    locks: core::Locks,
    runtime: Arc<Runtime>,
}

/// Something asynchronous with the runtime that drives it. What needs no waiting is reached through
/// [`Deref`](std::ops::Deref).
#[derive(Debug)]
pub struct Blocking<T> {
    inner: T,
    runtime: Arc<Runtime>,
}

impl<T> Blocking<T> {
    fn drive<O>(&self, future: impl Future<Output = O>) -> O {
        self.runtime.block_on(future)
    }

    /// Changes what is inside, as its builder methods do: `locks.mutex("a").with(|mutex| mutex.ttl(ttl))`.
    #[must_use]
    pub fn with(self, change: impl FnOnce(T) -> T) -> Self {
        Self { inner: change(self.inner), runtime: self.runtime }
    }

    fn beside<U>(&self, inner: U) -> Blocking<U> {
        Blocking { inner, runtime: Arc::clone(&self.runtime) }
    }
}

impl<T> std::ops::Deref for Blocking<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

/// A lock that is held: [`core::Guard`] without async.
pub type Guard = Blocking<core::Guard>;

impl Locks {
    fn around<T>(&self, inner: T) -> Blocking<T> {
        Blocking { inner, runtime: Arc::clone(&self.runtime) }
    }

    /// As [`core::Locks::mutex`].
    #[must_use]
    pub fn mutex(&self, name: impl AsRef<str>) -> Blocking<core::Mutex> {
        self.around(self.locks.mutex(name))
    }

    /// As [`core::Locks::rwlock`].
    #[must_use]
    pub fn rwlock(&self, name: impl AsRef<str>) -> Blocking<core::RwLock> {
        self.around(self.locks.rwlock(name))
    }

    /// As [`core::Locks::semaphore`].
    #[must_use]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Blocking<core::Semaphore> {
        self.around(self.locks.semaphore(name, permits))
    }

    /// As [`core::Locks::election`].
    #[must_use]
    pub fn election(&self, name: impl AsRef<str>) -> Blocking<core::Election> {
        self.around(self.locks.election(name))
    }

    /// As [`core::Locks::several`].
    #[must_use]
    pub fn several<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Blocking<core::Several> {
        self.around(self.locks.several(names))
    }

    /// As [`core::Locks::cell`].
    #[must_use]
    pub fn cell(&self, name: impl AsRef<str>) -> Blocking<core::CellHandle> {
        self.around(self.locks.cell(name))
    }

    /// As [`core::Locks::guarantees`].
    #[must_use]
    pub fn guarantees(&self) -> &Guarantees {
        self.locks.guarantees()
    }

    /// As [`core::Locks::require`].
    ///
    /// # Errors
    /// As there.
    pub fn require(&self, needs: &Needs) -> Result<()> {
        self.locks.require(needs)
    }

    /// As [`core::Locks::survey`].
    ///
    /// # Errors
    /// As there.
    pub fn survey(&self, prefix: impl AsRef<str>) -> Result<Vec<Line>> {
        self.runtime.block_on(self.locks.survey(prefix))
    }

    /// As [`core::Locks::evict`].
    ///
    /// # Errors
    /// As there.
    pub fn evict(&self, name: impl AsRef<str>, claim: PublicId) -> Result<bool> {
        self.runtime.block_on(self.locks.evict(name, claim))
    }

    /// As [`core::Locks::close`].
    ///
    /// # Errors
    /// As there.
    pub fn close(self, limit: Duration) -> Result<()> {
        self.runtime.block_on(self.locks.close(limit))
    }
}

/// Each method that waits, as there, without async.
macro_rules! waits {
    ($type:ty { $($name:ident($($arg:ident: $arg_type:ty),*) -> $($shape:ident)?<$guard:ty>;)* }) => {
        impl Blocking<$type> {
            $(
                /// As the method of the same name, without async.
                ///
                /// # Errors
                /// As there.
                pub fn $name(&self, $($arg: $arg_type),*) -> Result<waits!(@type $($shape)? <$guard>)> {
                    let answer = self.drive(self.inner.$name($($arg),*))?;
                    Ok(waits!(@wrap self answer $($shape)?))
                }
            )*
        }
    };
    (@type Option<$guard:ty>) => { Option<Blocking<$guard>> };
    (@type <$guard:ty>) => { Blocking<$guard> };
    (@wrap $self:ident $answer:ident Option) => { $answer.map(|guard| $self.beside(guard)) };
    (@wrap $self:ident $answer:ident) => { $self.beside($answer) };
}

waits!(core::Mutex {
    lock() -> <core::Guard>;
    lock_in_time() -> Option<core::Guard>;
    try_lock() -> Option<core::Guard>;
});
waits!(core::RwLock {
    read() -> <core::Guard>;
    try_read() -> Option<core::Guard>;
    write() -> <core::WriteGuard>;
    try_write() -> Option<core::WriteGuard>;
});
waits!(core::Semaphore {
    acquire(permits: u32) -> <core::Guard>;
    try_acquire(permits: u32) -> Option<core::Guard>;
});
waits!(core::Several {
    lock() -> <core::SeveralGuard>;
    try_lock() -> Option<core::SeveralGuard>;
});
waits!(core::Election {
    campaign() -> <core::Leadership>;
});

impl Blocking<core::Guard> {
    /// As [`core::Guard::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(self) -> Result<Release> {
        self.runtime.block_on(self.inner.release())
    }
}

impl Blocking<core::WriteGuard> {
    /// As [`core::WriteGuard::downgrade`].
    ///
    /// # Errors
    /// As there.
    pub fn downgrade(self) -> Result<Guard, (Self, Error)> {
        let Self { inner, runtime } = self;
        match runtime.block_on(inner.downgrade()) {
            Ok(inner) => Ok(Blocking { inner, runtime }),
            Err((inner, error)) => Err((Self { inner, runtime }, error)),
        }
    }

    /// As [`core::Guard::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(self) -> Result<Release> {
        self.runtime.block_on(self.inner.into_guard().release())
    }
}

impl Blocking<core::SeveralGuard> {
    /// As [`core::SeveralGuard::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(self) -> Result<Vec<Release>> {
        self.runtime.block_on(self.inner.release())
    }
}

impl Blocking<core::Leadership> {
    /// As [`core::Leadership::resign`].
    ///
    /// # Errors
    /// As there.
    pub fn resign(self) -> Result<Release> {
        self.runtime.block_on(self.inner.resign())
    }
}

impl Blocking<core::CellHandle> {
    /// As [`core::CellHandle::read`].
    ///
    /// # Errors
    /// As there.
    pub fn read(&self) -> Result<Cell> {
        self.drive(self.inner.read())
    }

    /// As [`core::CellHandle::write`].
    ///
    /// # Errors
    /// As there.
    pub fn write(&self, value: impl Into<Vec<u8>>) -> Result<Written> {
        self.drive(self.inner.write(value))
    }

    /// As [`core::CellHandle::write_if`].
    ///
    /// # Errors
    /// As there.
    pub fn write_if(&self, version: u64, value: impl Into<Vec<u8>>) -> Result<Written> {
        self.drive(self.inner.write_if(version, value))
    }

    /// As [`core::CellHandle::update`].
    ///
    /// # Errors
    /// As there.
    pub fn update(&self, change: impl FnMut(&[u8]) -> Vec<u8>) -> Result<Cell> {
        self.drive(self.inner.update(change))
    }
}
