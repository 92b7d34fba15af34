#!/bin/sh
# What tests need from the system: a browser to open the report in, and a broker to record. Installs Debian's packages
# where that can be done; where not, the tests that need them say so and are skipped.
set -eu
PATH="$PATH:/usr/sbin"
missing=""
for each in chromium mosquitto; do
  command -v $each >/dev/null 2>&1 || missing="$missing $each"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "== not on this machine:$missing; the tests that need them will be skipped"
  exit 0
fi
echo "== system packages:$missing"
policy=/usr/sbin/policy-rc.d # tests start their own brokers: the package must not start one
if [ ! -e $policy ]; then
  printf '#!/bin/sh\nexit 101\n' > $policy
  chmod +x $policy
  trap 'rm -f $policy' EXIT
fi
apt-get update -qq >/dev/null 2>&1 || true
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 \
  || echo "   could not be installed; the tests that need them will be skipped"
