# Events come in here.
resource "google_pubsub_topic" "events" {
  name                       = "${var.name}-events"
  message_retention_duration = "604800s" # 7 days: a new subscription can go back that far

  message_storage_policy {
    allowed_persistence_regions = [var.region]
  }
}

# Weir reads this one, and nobody else may: a message goes to one reader of a subscription.
resource "google_pubsub_subscription" "events" {
  name                 = "${var.name}-weir"
  topic                = google_pubsub_topic.events.id
  ack_deadline_seconds = var.ack_deadline

  # Longer than any outage that is to be survived: what is not read by then is lost.
  message_retention_duration = "604800s"
  retain_acked_messages      = false

  # Weir counts an event once by its id, checkpoint and replay included; Pub/Sub's own guarantee
  # holds in one region only, slows readers down, and ends where a worker dies after its pull.
  enable_exactly_once_delivery = false
  enable_message_ordering      = false

  # A stream that is stopped for a month is still there.
  expiration_policy {
    ttl = ""
  }

  retry_policy {
    minimum_backoff = "1s"
    maximum_backoff = "60s"
  }

  # The last resort, for a message that kills its worker again and again. What Weir can read and
  # must refuse it dead-letters by itself, at the first delivery. A restart delivers again too, so
  # the number is the largest there is.
  dead_letter_policy {
    dead_letter_topic     = google_pubsub_topic.undelivered.id
    max_delivery_attempts = 100
  }
}

# Whole messages, with content: as private as the events.
resource "google_pubsub_topic" "undelivered" {
  name = "${var.name}-undelivered"

  message_storage_policy {
    allowed_persistence_regions = [var.region]
  }
}

resource "google_pubsub_subscription" "undelivered" {
  name                       = "${var.name}-undelivered"
  topic                      = google_pubsub_topic.undelivered.id
  message_retention_duration = "604800s"

  expiration_policy {
    ttl = ""
  }
}

# What Weir refuses: where it was and why.
resource "google_pubsub_topic" "dead" {
  name = "${var.name}-dead"
}

resource "google_pubsub_subscription" "dead" {
  name                       = "${var.name}-dead"
  topic                      = google_pubsub_topic.dead.id
  message_retention_duration = "604800s"

  expiration_policy {
    ttl = ""
  }
}

# Releases. They may go wherever the guarantee of the plan may be read.
resource "google_pubsub_topic" "releases" {
  name = "${var.name}-releases"
}
