//! Configuration in two steps: layers of raw text per key (defaults, file, environment, flags),
//! then [`Config`], where everything is resolved and nothing is optional that must be there.

mod keys;
mod layers;
mod resolve;
mod template;
mod value;

pub use keys::{Key, Spec};
pub use layers::{ConfigError, Layers, Origin};
pub use resolve::{
    Auth, Config, Limits, Pairing, Quota, Rates, Registration, Streams, Timeouts, Tls,
};
pub use template::template;
pub use value::{Kind, Network, Rate, StoreLocation, Value};
