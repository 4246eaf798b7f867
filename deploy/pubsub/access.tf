data "google_project" "this" {}

locals {
  worker = "serviceAccount:${google_service_account.worker.email}"
  # Google's own account that moves undelivered messages.
  pubsub = "serviceAccount:service-${data.google_project.this.number}@gcp-sa-pubsub.iam.gserviceaccount.com"
}

# Who the workers are. All grants below are on one subscription or topic, none on the project.
resource "google_service_account" "worker" {
  account_id   = "${var.name}-worker"
  display_name = "Workers of the pipeline ${var.name}"
}

resource "google_pubsub_subscription_iam_member" "worker_reads" {
  subscription = google_pubsub_subscription.events.name
  role         = "roles/pubsub.subscriber"
  member       = local.worker
}

# To ask for the ack deadline, and for Dataflow to look at the backlog.
resource "google_pubsub_subscription_iam_member" "worker_looks" {
  subscription = google_pubsub_subscription.events.name
  role         = "roles/pubsub.viewer"
  member       = local.worker
}

resource "google_pubsub_topic_iam_member" "worker_releases" {
  topic  = google_pubsub_topic.releases.name
  role   = "roles/pubsub.publisher"
  member = local.worker
}

resource "google_pubsub_topic_iam_member" "worker_buries" {
  topic  = google_pubsub_topic.dead.name
  role   = "roles/pubsub.publisher"
  member = local.worker
}

resource "google_pubsub_topic_iam_member" "publishers" {
  for_each = var.publishers
  topic    = google_pubsub_topic.events.name
  role     = "roles/pubsub.publisher"
  member   = each.value
}

# Readers make subscriptions of their own to the releases.
resource "google_pubsub_topic_iam_member" "readers" {
  for_each = var.readers
  topic    = google_pubsub_topic.releases.name
  role     = "roles/pubsub.subscriber"
  member   = each.value
}

resource "google_pubsub_subscription_iam_member" "operators_dead" {
  for_each     = var.operators
  subscription = google_pubsub_subscription.dead.name
  role         = "roles/pubsub.subscriber"
  member       = each.value
}

resource "google_pubsub_topic_iam_member" "pubsub_undelivered" {
  topic  = google_pubsub_topic.undelivered.name
  role   = "roles/pubsub.publisher"
  member = local.pubsub
}

resource "google_pubsub_subscription_iam_member" "pubsub_undelivered" {
  subscription = google_pubsub_subscription.events.name
  role         = "roles/pubsub.subscriber"
  member       = local.pubsub
}

# The noise's secret: made empty; its value is added by hand (docs/reference/config.md), so that it is in
# no plan and no state of Terraform.
resource "google_secret_manager_secret" "noise" {
  secret_id = "${var.name}-noise"

  replication {
    user_managed {
      replicas {
        location = var.region
      }
    }
  }
}

resource "google_secret_manager_secret_iam_member" "worker_noise" {
  secret_id = google_secret_manager_secret.noise.id
  role      = "roles/secretmanager.secretAccessor"
  member    = local.worker
}
