//! Pushes by hand, straight to the server, and what was promised about each.

use serde_json::json;
use tidings_client::ErrorKind;
use tidings_client::remote::{ClientError, PullFilter};
use tidings_disk::{noise, pick};
use tidings_wire::AppId;
use tidings_wire::sync::{Item, PushRequest};
use tokio_util::sync::CancellationToken;

use super::Tally;
use crate::hand::{Hand, encode, plain};

/// A device by hand that pushes one blob after another, with what it was told.
#[derive(Debug, Clone)]
pub(crate) struct Pushes {
    hand: Hand,
    /// Another replica of it, which is shown what this one pushed.
    reader: Hand,
    app: AppId,
    seed: u64,
    /// Blobs that have to be in the log, in this order, once each.
    pushed: Vec<Vec<u8>>,
    unanswered: Option<PushRequest>,
    /// How many were found in the log, and where reading goes on.
    found: usize,
    cursor: Option<Vec<u8>>,
}

impl Pushes {
    pub(crate) async fn start(url: &str, seed: u64) -> Self {
        let hand = Hand::create(url).await;
        let (reader, app) = (hand.twin(), "soak".parse().expect("an app"));
        let (pushed, unanswered, found, cursor) = (Vec::new(), None, 0, None);
        Self { hand, reader, app, seed, pushed, unanswered, found, cursor }
    }

    /// Pushes until it is told to stop or the server is gone. What died unanswered is pushed again
    /// first, as a device does.
    pub(crate) async fn push(
        &mut self,
        stop: &CancellationToken,
        tally: &mut Tally,
    ) -> Result<(), String> {
        while !stop.is_cancelled() {
            match self.push_one().await {
                Ok(()) => tally.pushes += 1,
                Err(error) => {
                    tally.unanswered += 1;
                    let gone = error.kind() == ErrorKind::Retry;
                    return if gone { Ok(()) } else { Err(format!("a push was refused: {error}")) };
                }
            }
        }
        Ok(())
    }

    /// Pushes one blob.
    pub(crate) async fn push_one(&mut self) -> Result<(), ClientError> {
        let request = match self.unanswered.take() {
            Some(request) => request,
            None => self.next(),
        };
        match self.hand.client().push(&self.app, &request).await {
            Ok(_) => {
                self.pushed.extend(request.blobs.iter().map(|blob| blob.to_vec()));
                Ok(())
            }
            Err(error) => {
                self.unanswered = Some(request);
                Err(error)
            }
        }
    }

    fn next(&mut self) -> PushRequest {
        let number = self.pushed.len() as u64;
        let seed = self.seed ^ number.rotate_left(24);
        let length = if pick(seed, 20) == 0 { pick(seed + 1, 40_000) } else { pick(seed + 1, 600) };
        let fill = encode(&noise(seed, usize::try_from(length).unwrap_or(0)));
        let row = json!({ "n": number, "fill": fill });
        let body = plain(&self.hand.body("t", &[("r", row)]));
        self.hand.seal(&self.app, &[("t", body)])
    }

    /// Reads the log on from where it was read to, or from its beginning: every acknowledged push
    /// is there, in order, once; at most the one that died unanswered follows.
    pub(crate) async fn check(&mut self, whole: bool, tally: &mut Tally) -> Result<(), String> {
        if whole {
            (self.found, self.cursor) = (0, None);
        }
        loop {
            let all = PullFilter::default();
            let page = self.reader.pull(&self.app, self.cursor.as_deref(), &all).await;
            let page = page.map_err(|error| format!("the log cannot be read: {error}"))?;
            if let Some(reset) = page.reset {
                return Err(format!("the server does not know its own cursor: {reset:?}"));
            }
            for entry in &page.entries {
                let Item::Blob(blob) = &entry.item else {
                    return Err(format!("{:?} holds no blob", entry.position));
                };
                self.find(blob).map_err(|wrong| format!("{:?}: {wrong}", entry.position))?;
                tally.checked += 1;
            }
            self.cursor = Some(page.cursor.to_vec());
            if !page.has_more {
                break;
            }
        }
        match self.pushed.len() - self.found {
            0 => Ok(()),
            missing => Err(format!(
                "{missing} acknowledged pushes are lost, from the {}th on",
                self.found + 1
            )),
        }
    }

    fn find(&mut self, blob: &[u8]) -> Result<(), String> {
        if self.found == self.pushed.len() {
            // Not answered, and stored all the same: that counts from now on.
            let unanswered = self.unanswered.take().ok_or("a blob that nobody pushed")?;
            self.pushed.extend(unanswered.blobs.iter().map(|blob| blob.to_vec()));
        }
        let expected = self.pushed.get(self.found).map(Vec::as_slice);
        self.found += 1;
        if expected == Some(blob) { Ok(()) } else { Err(format!("not push {}", self.found)) }
    }
}
