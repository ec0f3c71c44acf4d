#![deny(warnings, unreachable_pub, private_interfaces, private_bounds)]

mod flows {
    pub(crate) mod inner {
        #[durable::workflow]
        pub(in crate::flows) async fn restricted(number: u32) -> u32 {
            number
        }

        #[durable::workflow]
        pub(super) async fn above(number: u32) -> u32 {
            restricted(number).await
        }

        #[durable::workflow]
        async fn private(number: u32) -> u32 {
            number
        }

        #[durable::workflow]
        pub(crate) async fn crate_wide(number: u32) -> u32 {
            private(number).await
        }
    }

    pub(crate) fn use_them() {
        let _starts = (inner::restricted::start(1), inner::above::start(1));
    }
}

use flows::inner::crate_wide;

fn main() {
    flows::use_them();
    let _start = crate_wide::start(1);
    let _call = || crate_wide(1);
}
