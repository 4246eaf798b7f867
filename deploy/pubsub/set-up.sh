#!/usr/bin/env bash
# The same as the Terraform files next to it, by gcloud; what is there already stays as it is.
#   PROJECT=acme-data REGION=europe-west1 deploy/pubsub/set-up.sh shop \
#     serviceAccount:till@acme-data.iam.gserviceaccount.com group:readers@acme.example
set -euo pipefail

name="${1:?give the name of the pipeline, like shop}"
publisher="${2:?give who publishes events, like serviceAccount:NAME@PROJECT.iam.gserviceaccount.com}"
reader="${3:?give who reads releases, like group:readers@acme.example}"
: "${PROJECT:?set PROJECT to the Google Cloud project}"
: "${REGION:?set REGION, like europe-west1}"
ack_deadline="${ACK_DEADLINE:-60}"

account="$name-worker@$PROJECT.iam.gserviceaccount.com"
worker="serviceAccount:$account"
number="$(gcloud projects describe "$PROJECT" --format='value(projectNumber)')"
pubsub="serviceAccount:service-$number@gcp-sa-pubsub.iam.gserviceaccount.com"

# Makes a resource unless it is there: make "WORDS OF THE GROUP" NAME FLAGS...
make() {
	local group="$1" resource="$2"
	shift 2
	# shellcheck disable=SC2086 # the group is several words
	if gcloud $group describe "$resource" --project "$PROJECT" >/dev/null 2>&1; then
		echo "set-up.sh: $resource is there already" >&2
		return
	fi
	# shellcheck disable=SC2086
	gcloud $group create "$resource" --project "$PROJECT" "$@"
}

# Grants a role on one resource: grant "WORDS OF THE GROUP" NAME MEMBER ROLE
grant() {
	# shellcheck disable=SC2086
	gcloud $1 add-iam-policy-binding "$2" --project "$PROJECT" --member "$3" --role "$4" >/dev/null
}

make "pubsub topics" "$name-events" \
	--message-retention-duration 7d --message-storage-policy-allowed-regions "$REGION"
make "pubsub topics" "$name-undelivered" --message-storage-policy-allowed-regions "$REGION"
make "pubsub topics" "$name-dead"
make "pubsub topics" "$name-releases"
make "pubsub subscriptions" "$name-weir" \
	--topic "$name-events" --topic-project "$PROJECT" \
	--ack-deadline "$ack_deadline" \
	--message-retention-duration 7d \
	--expiration-period never \
	--no-enable-exactly-once-delivery \
	--no-enable-message-ordering \
	--min-retry-delay 1s --max-retry-delay 60s \
	--dead-letter-topic "$name-undelivered" --dead-letter-topic-project "$PROJECT" \
	--max-delivery-attempts 100
make "pubsub subscriptions" "$name-undelivered" \
	--topic "$name-undelivered" --message-retention-duration 7d --expiration-period never
make "pubsub subscriptions" "$name-dead" \
	--topic "$name-dead" --message-retention-duration 7d --expiration-period never
if ! gcloud iam service-accounts describe "$account" --project "$PROJECT" >/dev/null 2>&1; then
	gcloud iam service-accounts create "$name-worker" --project "$PROJECT" \
		--display-name "Workers of the pipeline $name"
fi
make "secrets" "$name-noise" --replication-policy user-managed --locations "$REGION"

grant "pubsub subscriptions" "$name-weir" "$worker" roles/pubsub.subscriber
grant "pubsub subscriptions" "$name-weir" "$worker" roles/pubsub.viewer
grant "pubsub subscriptions" "$name-weir" "$pubsub" roles/pubsub.subscriber
grant "pubsub topics" "$name-undelivered" "$pubsub" roles/pubsub.publisher
grant "pubsub topics" "$name-releases" "$worker" roles/pubsub.publisher
grant "pubsub topics" "$name-dead" "$worker" roles/pubsub.publisher
grant "pubsub topics" "$name-events" "$publisher" roles/pubsub.publisher
grant "pubsub topics" "$name-releases" "$reader" roles/pubsub.subscriber
grant "secrets" "$name-noise" "$worker" roles/secretmanager.secretAccessor

cat <<TEXT
source:       {pubsub: {subscription: projects/$PROJECT/subscriptions/$name-weir}}
sink:         {pubsub: projects/$PROJECT/topics/$name-releases}
dead_letters: {pubsub: projects/$PROJECT/topics/$name-dead}
secret:       {gcp: projects/$PROJECT/secrets/$name-noise/versions/1}
workers:      $account
TEXT
