//! HTTP as we and the official chain of credentials use it.

use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;

/// AWS answers in milliseconds; a connection that takes longer is going nowhere.
const CONNECT: Duration = Duration::from_secs(10);
/// A page of a thousand instances takes a few seconds.
const WHOLE: Duration = Duration::from_secs(60);
/// A page of a thousand instances has about 10 MB.
const LARGEST_ANSWER: usize = 64 << 20;

/// A client that trusts the system's authorities and, if given, those of the cluster.
pub(super) fn client(authorities: Option<&[u8]>) -> Result<reqwest::Client, String> {
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("machinist/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .timeout(WHOLE)
        // A redirect would carry the signature elsewhere; AWS sends none.
        .redirect(reqwest::redirect::Policy::none());
    if let Some(authorities) = authorities {
        let certificates = reqwest::Certificate::from_pem_bundle(authorities).map_err(words)?;
        builder = builder.tls_certs_merge(certificates);
    }
    builder.build().map_err(words)
}

/// The text of an answer of bearable size.
pub(super) async fn read(mut response: reqwest::Response) -> Result<String, String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(words)? {
        if bytes.len() + chunk.len() > LARGEST_ANSWER {
            return Err(format!("the answer is larger than {LARGEST_ANSWER} bytes"));
        }
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes).map_err(|_| "the answer is not text".to_owned())
}

/// An error with its causes, in one line and without the address.
pub(super) fn words(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}

/// Lets the official chain (web identities, instance and container metadata) use our HTTP client.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    pub(super) http: reqwest::Client,
    /// Set for requests that have to end sooner, such as those to the metadata service.
    timeout: Option<Duration>,
}

impl Connector {
    pub(super) fn new(http: reqwest::Client) -> Self {
        Self { http, timeout: None }
    }

    async fn exchange(self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let user = |error: reqwest::Error| ConnectorError::user(words(error).into());
        let method = reqwest::Method::from_bytes(request.method().as_bytes());
        let method = method.map_err(|error| ConnectorError::user(error.into()))?;
        let mut outgoing = self.http.request(method, request.uri());
        if let Some(timeout) = self.timeout {
            outgoing = outgoing.timeout(timeout);
        }
        for (name, value) in request.headers() {
            outgoing = outgoing.header(name, value);
        }
        let body = request.body().bytes().unwrap_or_default().to_vec();
        let outgoing = outgoing.body(body).build().map_err(user)?;
        let incoming = self.http.execute(outgoing).await.map_err(|error| {
            if error.is_timeout() {
                ConnectorError::timeout(words(error).into())
            } else {
                ConnectorError::io(words(error).into())
            }
        })?;
        let status = incoming.status().as_u16().try_into();
        let status = status.map_err(|_| ConnectorError::user("no HTTP status".into()))?;
        let headers = incoming.headers().clone();
        let text = read(incoming).await.map_err(|words| ConnectorError::io(words.into()))?;
        let mut response = HttpResponse::new(status, text.into());
        for (name, value) in &headers {
            if let Ok(value) = value.to_str() {
                response.headers_mut().append(name.as_str().to_owned(), value.to_owned());
            }
        }
        Ok(response)
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::new(self.clone().exchange(request))
    }
}

impl HttpClient for Connector {
    fn http_connector(&self, settings: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        let timeouts = [settings.connect_timeout(), settings.read_timeout()];
        let timeout = timeouts.into_iter().flatten().reduce(|one, other| one + other);
        SharedHttpConnector::new(Self { http: self.http.clone(), timeout })
    }
}
