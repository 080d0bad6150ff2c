//! DNS lookups through the system's resolver, on dedicated threads.
//!
//! A hanging lookup holds its thread until the system gives up, often half a minute later. On the runtime's blocking
//! threads, such lookups would delay all other work that needs such a thread. So each lookup gets its own thread.
//! The number of threads is limited in total and per tenant (per host, when a call names no tenant). A lookup that
//! finds no free thread waits within the time limit of its call. The first lookup of a tenant never waits for the
//! hanging lookups of other tenants.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, oneshot};

use crate::{Lookup, LookupResult};

/// Concurrent lookups in total.
const IN_ALL: usize = 64;
/// Concurrent lookups of one tenant, or of one host.
const PER_GROUP: usize = 4;
/// Additional lookups beyond [`IN_ALL`], at most one per tenant or host.
const SPARE: usize = 256;
/// Stack size of a lookup thread: many times what a resolver needs.
const STACK: usize = 512 * 1024;

tokio::task_local! {
    /// The tenant for whom this task makes its call.
    pub(crate) static ON_BEHALF_OF: Option<Arc<str>>;
}

type Find = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Resolves host names on dedicated threads. Clones share the limits.
#[derive(Clone)]
pub struct SystemLookup {
    find: Arc<Find>,
    in_all: Arc<Semaphore>,
    spare: Arc<Semaphore>,
    groups: Arc<Mutex<HashMap<Arc<str>, Arc<Group>>>>,
}

/// The lookups of one tenant, or of one host.
struct Group {
    places: Arc<Semaphore>,
    /// Permit to use one spare place when all shared places are taken.
    spare: Arc<Semaphore>,
}

impl Default for SystemLookup {
    fn default() -> Self {
        Self::with(|host| {
            let found = (host, 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

impl SystemLookup {
    /// The same with `find` as the resolver. `find` may block for any time.
    pub fn with(find: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        let [in_all, spare] = [IN_ALL, SPARE].map(|places| Arc::new(Semaphore::new(places)));
        Self { find: Arc::new(find), in_all, spare, groups: Arc::default() }
    }

    fn groups(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Group>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place for one lookup of this group. The place is held until the lookup's thread has ended.
    async fn place(&self, name: Arc<str>) -> Result<LookupPlace, AcquireError> {
        let group = Arc::clone(self.groups().entry(Arc::clone(&name)).or_insert_with(|| {
            let [places, spare] = [PER_GROUP, 1].map(|places| Arc::new(Semaphore::new(places)));
            Arc::new(Group { places, spare })
        }));
        let (places, right) = (Arc::clone(&group.places), Arc::clone(&group.spare));
        let mut place = LookupPlace { lookup: self.clone(), name, group: Some(group), permits: Vec::new() };
        // The group's own limit comes first, so that a lookup waiting for it takes no shared place from others.
        place.permits.push(places.acquire_owned().await?);
        let shared = Arc::clone(&self.in_all).acquire_owned();
        let spare =
            async { Ok([right.acquire_owned().await?, Arc::clone(&self.spare).acquire_owned().await?]) };
        tokio::select! {
            biased;
            shared = shared => place.permits.push(shared?),
            spare = spare => place.permits.extend(spare?),
        }
        Ok(place)
    }
}

struct LookupPlace {
    lookup: SystemLookup,
    name: Arc<str>,
    group: Option<Arc<Group>>,
    permits: Vec<OwnedSemaphorePermit>,
}

impl Drop for LookupPlace {
    fn drop(&mut self) {
        self.permits.clear();
        let mut groups = self.lookup.groups();
        self.group = None;
        // No other lookup holds or awaits a place in this group.
        if groups.get(&self.name).is_some_and(|group| Arc::strong_count(group) == 1) {
            groups.remove(&self.name);
        }
    }
}

impl Lookup for SystemLookup {
    fn lookup(&self, host: &str) -> LookupResult {
        let named = ON_BEHALF_OF.try_with(Clone::clone).ok().flatten();
        let (lookup, host) = (self.clone(), host.to_owned());
        let group = named.unwrap_or_else(|| host.as_str().into());
        Box::pin(async move {
            let place = lookup.place(group).await.map_err(io::Error::other)?;
            let (tell, found) = oneshot::channel();
            let find = Arc::clone(&lookup.find);
            std::thread::Builder::new().name("lookup".to_owned()).stack_size(STACK).spawn(move || {
                let found = find(&host);
                drop(place);
                // The caller may have given up meanwhile.
                let _ = tell.send(found);
            })?;
            found.await.map_err(|_| io::Error::other("the lookup thread panicked"))?
        })
    }
}

/// Without an address check: for HTTP clients of hosts that the operator configured.
impl Resolve for SystemLookup {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.lookup(name.as_str());
        Box::pin(async move {
            let found = found.await?;
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, mpsc};

    use super::*;

    /// Names that begin with `hang` are not answered before they are let go.
    #[derive(Clone, Default)]
    struct Names(Arc<(Mutex<bool>, Condvar)>);

    impl Names {
        fn lookup(&self, asked: mpsc::Sender<String>) -> SystemLookup {
            let Names(gate) = self.clone();
            SystemLookup::with(move |host| {
                let _ = asked.send(host.to_owned());
                if host.starts_with("hang") {
                    let (open, opened) = &*gate;
                    drop(opened.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
                }
                Ok(vec![[192, 0, 2, 1].into()])
            })
        }

        fn let_go(&self) {
            *self.0.0.lock().unwrap() = true;
            self.0.1.notify_all();
        }
    }

    fn asks(lookup: &SystemLookup, tenant: &str, host: String) -> tokio::task::JoinHandle<io::Result<usize>> {
        let (lookup, tenant) = (lookup.clone(), Some(tenant.into()));
        tokio::spawn(ON_BEHALF_OF.scope(tenant, async move { Ok(lookup.lookup(&host).await?.len()) }))
    }

    #[test]
    fn lookups_that_hang_for_one_tenant_hold_up_neither_another_s_nor_the_blocking_threads() {
        // One blocking thread, which a single hanging lookup would hold.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (names, (asked, hears)) = (Names::default(), mpsc::channel());
        runtime.block_on(async {
            let lookup = names.lookup(asked);
            let hanging: Vec<_> =
                (0..100).map(|n| asks(&lookup, "acme", format!("hang-{n}.example"))).collect();
            assert_eq!(asks(&lookup, "zen", "quick.example".to_owned()).await.unwrap().unwrap(), 1);
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            let begun: Vec<String> = hears.try_iter().collect();
            assert!(begun.len() <= PER_GROUP + 1, "{begun:?}");
            assert!(hanging.iter().all(|asking| !asking.is_finished()));
            names.let_go();
            for asking in hanging {
                assert_eq!(asking.await.unwrap().unwrap(), 1, "each has its turn in the end");
            }
            while !lookup.groups().is_empty() {
                tokio::task::yield_now().await;
            }
        });
    }

    #[tokio::test]
    async fn sixteen_tenants_whose_lookups_hang_leave_one_for_the_next() {
        let (names, (asked, hears)) = (Names::default(), mpsc::channel());
        let lookup = names.lookup(asked);
        let ask = |tenant: usize, host: String| asks(&lookup, &format!("tenant-{tenant}"), host);
        let full = IN_ALL / PER_GROUP;
        let hanging: Vec<_> = (0..IN_ALL).map(|n| ask(n % full, format!("hang-{n}.example"))).collect();
        let mut begun = 0;
        while begun < IN_ALL {
            begun += hears.try_iter().count();
            tokio::task::yield_now().await;
        }
        // Nobody may take more places by asking again.
        let more: Vec<_> = (0..full).map(|n| ask(n, format!("hang-more-{n}.example"))).collect();
        assert_eq!(ask(full, "quick.example".to_owned()).await.unwrap().unwrap(), 1);
        assert_eq!(hears.try_iter().collect::<Vec<_>>(), ["quick.example"]);
        names.let_go();
        for asking in hanging.into_iter().chain(more) {
            assert_eq!(asking.await.unwrap().unwrap(), 1);
        }
    }

    #[tokio::test]
    async fn a_host_that_nobody_named_a_tenant_for_is_bounded_by_itself() {
        let (names, (asked, hears)) = (Names::default(), mpsc::channel());
        let lookup = names.lookup(asked);
        for _ in 0..2 * PER_GROUP {
            let lookup = lookup.clone();
            tokio::spawn(async move { lookup.lookup("hang.example").await });
        }
        assert!(lookup.lookup("quick.example").await.is_ok());
        assert!(hears.try_iter().filter(|host| host == "hang.example").count() <= PER_GROUP);
        names.let_go();
    }
}
