//! One account: a server and devices that are linked, in one call.

use tidings_wire::AppId;

use crate::device::Device;
use crate::proxy::Proxy;
use crate::server::Server;
use crate::wait::{DEADLINE, eventually};

/// A server, and the devices of one account on it.
#[derive(Debug)]
pub struct House {
    /// The server.
    pub server: Server,
    /// What lies between devices and server, where there is one.
    pub proxy: Option<Proxy>,
    /// The devices, in the order of their linking.
    pub devices: Vec<Device>,
}

impl House {
    /// A server and devices of these names; the first makes the account, the others are linked.
    ///
    /// # Panics
    /// Something does not start, or refuses.
    pub async fn new(names: &[&str]) -> Self {
        Self::of(Server::start(), None, names.iter().map(|name| Device::new(name))).await
    }

    /// The same with a proxy between the server and all devices.
    ///
    /// # Panics
    /// Something does not start, or refuses.
    pub async fn with_proxy(names: &[&str]) -> Self {
        let server = Server::start();
        let proxy = Proxy::start(server.address()).await;
        Self::of(server, Some(proxy), names.iter().map(|name| Device::new(name))).await
    }

    /// The same of parts that were prepared. Devices that do not run are started.
    ///
    /// # Panics
    /// Something does not start, or refuses.
    pub async fn of(
        server: Server,
        proxy: Option<Proxy>,
        devices: impl IntoIterator<Item = Device>,
    ) -> Self {
        let mut house = Self { server, proxy, devices: Vec::new() };
        for device in devices {
            house.link(device).await;
        }
        house
    }

    /// The URL that devices are told.
    pub fn url(&self) -> String {
        self.proxy.as_ref().map_or_else(|| self.server.url(), Proxy::url)
    }

    /// Starts a device and links it to the account, or makes the account with it.
    ///
    /// # Panics
    /// It does not start, or somebody refuses.
    pub async fn link(&mut self, mut device: Device) -> &Device {
        device.resume().await;
        let url = self.url();
        match self.devices.first() {
            None => device.create_account(&url).await,
            Some(first) => first.link(&device, &url).await,
        };
        self.devices.push(device);
        self.devices.last().expect("the device of this moment")
    }

    /// A device by its place.
    ///
    /// # Panics
    /// There is none.
    pub fn device(&self, index: usize) -> &Device {
        self.devices.get(index).expect("a device")
    }

    /// A device by its place, to stop or change it.
    ///
    /// # Panics
    /// There is none.
    pub fn device_mut(&mut self, index: usize) -> &mut Device {
        self.devices.get_mut(index).expect("a device")
    }

    /// Waits until every running device shows the same rows of a table.
    ///
    /// # Panics
    /// They did not by the deadline.
    pub async fn converge(&self, app: &AppId, table: &str) {
        let what = format!("all devices show the same {table}");
        eventually(&what, DEADLINE, async || {
            let mut seen = Vec::new();
            for device in &self.devices {
                seen.push((device.name(), device.rows(app, table).await));
            }
            let same = seen.windows(2).all(|pair| pair[0].1 == pair[1].1);
            let counts: Vec<_> = seen.iter().map(|(name, rows)| (name, rows.len())).collect();
            if same { Ok(()) } else { Err(format!("{counts:?}")) }
        })
        .await;
    }
}
