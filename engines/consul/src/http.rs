//! Requests to one agent: connections of HTTP/1.1 that are kept for the next one.
//!
//! A connection is given back only by a request whose answer was read to its end. Whatever else happens closes it, so
//! that no answer is ever taken for another's.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_LENGTH, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use crate::address::{Address, Host};
use crate::error::{Fault, innermost};

/// What an agent that does not even take the connection is given.
const CONNECTING: Duration = Duration::from_secs(1);
/// So many connections are kept for the next requests.
const IDLE: usize = 32;

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    /// The path with its parameters.
    pub(crate) path: String,
    pub(crate) body: Bytes,
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// What Consul's state was when it answered; 0 where it does not say.
    pub(crate) index: u64,
    pub(crate) body: Bytes,
}

type Sender = SendRequest<Full<Bytes>>;

/// The connections to one agent.
pub(crate) struct Agent {
    endpoint: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    token: Option<HeaderValue>,
    idle: Mutex<Vec<Sender>>,
    /// What drives the connections; ended with the agent.
    drivers: Mutex<JoinSet<()>>,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the token.
        f.write_str(&self.endpoint)
    }
}

impl Agent {
    /// Connects to nobody yet.
    pub(crate) fn new(address: &Address, host: &Host, tls: Option<&Arc<ClientConfig>>) -> Result<Self, Fault> {
        let tls = tls.map(|config| {
            let name = host.name.trim_start_matches('[').trim_end_matches(']').to_owned();
            let name = ServerName::try_from(name).map_err(|error| Fault::Connecting(error.to_string()))?;
            Ok((TlsConnector::from(Arc::clone(config)), name))
        });
        let token = address.token.as_deref().map(|token| {
            let mut value = HeaderValue::from_str(token)
                .map_err(|_| Fault::Connecting("the token has characters that cannot be sent".into()))?;
            value.set_sensitive(true);
            Ok(value)
        });
        Ok(Self {
            endpoint: address.endpoint(host),
            tls: tls.transpose()?,
            token: token.transpose()?,
            idle: Mutex::default(),
            drivers: Mutex::default(),
        })
    }

    /// Asks, and reads the answer to its end.
    pub(crate) async fn ask(&self, ask: Ask, limit: Duration) -> Result<Answer, Fault> {
        let until = Instant::now() + limit;
        let mut request = self.request(ask)?;
        loop {
            let (mut sender, fresh) = match timeout_at(until, self.kept()).await {
                Ok(Some(sender)) => (sender, false),
                Ok(None) => (self.connect(limit).await?, true),
                Err(_) => return Err(Fault::Connecting("no answer in time".into())),
            };
            let sent = timeout_at(until, async {
                let answer = match sender.try_send_request(request).await {
                    Ok(answer) => answer,
                    Err(mut error) => return Err((error.take_message(), innermost(error.error()))),
                };
                let status = answer.status().as_u16();
                let index = answer.headers().get("x-consul-index").and_then(|index| index.to_str().ok()?.parse().ok());
                let body = answer.into_body().collect().await.map_err(|error| (None, innermost(&error)))?;
                Ok(Answer { status, index: index.unwrap_or(0), body: body.to_bytes() })
            });
            match sent.await {
                Err(_) => return Err(Fault::Silence(limit)),
                Ok(Ok(answer)) => {
                    self.keep(sender);
                    return Ok(answer);
                }
                // The agent closed the connection before it was used again, and the request was not sent on it.
                Ok(Err((Some(unsent), _))) if !fresh => request = unsent,
                Ok(Err((Some(_), cause))) => return Err(Fault::Connecting(cause)),
                Ok(Err((None, cause))) => return Err(Fault::Broken(cause)),
            }
        }
    }

    fn request(&self, ask: Ask) -> Result<Request<Full<Bytes>>, Fault> {
        let unfit = |_| Fault::Answer("a path that cannot be sent".into());
        let uri: Uri = ask.path.parse().map_err(unfit)?;
        let mut request = Request::new(Full::new(ask.body.clone()));
        (*request.method_mut(), *request.uri_mut()) = (ask.method, uri);
        let headers = request.headers_mut();
        let host = HeaderValue::from_str(&self.endpoint);
        headers.insert(HOST, host.map_err(|_| Fault::Connecting("a host that cannot be sent".into()))?);
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("lockhouse/", env!("CARGO_PKG_VERSION"))));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(ask.body.len()));
        if let Some(token) = &self.token {
            headers.insert("x-consul-token", token.clone());
        }
        Ok(request)
    }

    /// A connection that is open and unused.
    async fn kept(&self) -> Option<Sender> {
        loop {
            let mut sender = lock(&self.idle).pop()?;
            // It is ready as soon as its task has noticed that the last answer is at its end.
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    fn keep(&self, sender: Sender) {
        let mut idle = lock(&self.idle);
        if !sender.is_closed() && idle.len() < IDLE {
            idle.push(sender);
        }
    }

    async fn connect(&self, limit: Duration) -> Result<Sender, Fault> {
        let connecting = |error: std::io::Error| Fault::Connecting(innermost(&error));
        let open = async {
            let stream = TcpStream::connect(self.endpoint.as_str()).await.map_err(connecting)?;
            stream.set_nodelay(true).map_err(connecting)?;
            match &self.tls {
                Some((tls, name)) => {
                    let stream = tls.connect(name.clone(), stream).await.map_err(connecting)?;
                    self.drive(stream).await
                }
                None => self.drive(stream).await,
            }
        };
        let opened = timeout(limit.min(CONNECTING), open).await;
        opened.unwrap_or_else(|_| Err(Fault::Connecting("no answer in time".into())))
    }

    async fn drive(&self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<Sender, Fault> {
        let opened = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = opened.map_err(|error| Fault::Connecting(innermost(&error)))?;
        let mut drivers = lock(&self.drivers);
        // Those that have ended.
        while drivers.try_join_next().is_some() {}
        drivers.spawn(async move {
            // Whoever has the other end hears of it.
            let _ = connection.await;
        });
        Ok(sender)
    }
}

/// What agents' certificates are checked with.
pub(crate) fn tls(authority: Option<&[u8]>) -> Result<Arc<ClientConfig>, Fault> {
    let mut roots = RootCertStore::empty();
    let unfit = |what: String| Fault::Connecting(what);
    match authority {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| unfit(format!("the authority's file: {error}")))?;
                roots.add(certificate).map_err(|error| unfit(format!("the authority's certificate: {error}")))?;
            }
        }
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    if roots.is_empty() {
        return Err(unfit("there is no authority to check certificates with".into()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| unfit(error.to_string()))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
