//! Where what agents say goes: to people by the edge, to programs by the post.

use async_trait::async_trait;
use edge::Edge;
use ledger::Identity;
use post::Post;
use posthouse_wire::Descriptor;
use relay::{Carried, Egress, Order};

pub struct WaysOut {
    pub edge: Edge,
    pub post: Post,
}

impl WaysOut {
    fn of(&self, identity: &Identity) -> &dyn Egress {
        if self.post.everyones().as_ref() == Some(identity) { &self.post } else { &self.edge }
    }
}

#[async_trait]
impl Egress for WaysOut {
    async fn descriptor(&self, of: &Identity) -> Option<Descriptor> {
        self.of(of).descriptor(of).await
    }

    fn is_built_in(&self, identity: &Identity) -> bool {
        self.of(identity).is_built_in(identity)
    }

    fn everyones(&self) -> Option<Identity> {
        self.post.everyones()
    }

    fn may_repeat(&self, identity: &Identity) -> bool {
        self.of(identity).may_repeat(identity)
    }

    async fn carry(&self, order: Order) -> Carried {
        self.of(&order.on).carry(order).await
    }
}
