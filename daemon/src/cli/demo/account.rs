//! An account and a second device, as a person would make them.

use std::path::Path;

use tidings_wire::linking::{CreateAccount, Login, LoginEvent, Setup};

use crate::cli::connect::Local;
use crate::cli::failure::Failure;
use crate::cli::linking::authority;

/// Keys lie in files: the demo leaves nothing behind in a person's keychain.
fn setup(ca: &Path, name: &str) -> Result<Setup, Failure> {
    let name = Some(name.to_owned());
    Ok(Setup { authority: Some(authority(ca)?), name, keystore: Some("file".into()) })
}

/// Makes an account with an invite; gives its id.
///
/// # Errors
/// The daemon or the server refuses.
pub async fn create(
    local: &Local,
    url: &str,
    invite: String,
    ca: &Path,
) -> Result<String, Failure> {
    let setup = setup(ca, "first")?;
    let request = CreateAccount { url: url.to_owned(), invite: Some(invite), setup };
    Ok(local.create_account(&request).await?.account.to_string())
}

/// Links a new device by the code that it shows; gives the code.
///
/// # Errors
/// A daemon or the server refuses.
pub async fn link(old: &Local, new: &Local, url: &str, ca: &Path) -> Result<String, Failure> {
    let setup = setup(ca, "second")?;
    let mut linking = new.login(&Login { url: url.to_owned(), setup }).await?;
    let code = loop {
        match linking.next().await? {
            LoginEvent::Code(shown) => break shown.code,
            LoginEvent::Paired(_) => return Err(Failure::unexpected("linked without a code")),
            LoginEvent::Waiting(_) | LoginEvent::Error(_) => {}
        }
    };
    let paired = async {
        loop {
            if let LoginEvent::Paired(_) = linking.next().await? {
                return Ok(());
            }
        }
    };
    tokio::try_join!(old.add_device(&code), paired)?;
    Ok(code)
}
