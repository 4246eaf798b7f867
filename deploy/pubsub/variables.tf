variable "project" {
  description = "The Google Cloud project."
  type        = string
}

variable "region" {
  description = "Where messages are kept at rest, like europe-west1."
  type        = string
}

variable "name" {
  description = "The name of the pipeline: the `name` of its config."
  type        = string
  default     = "shop"

  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]{0,18}[a-z0-9])$", var.name))
    error_message = "Use 2 to 20 lower-case letters, digits and dashes."
  }
}

variable "publishers" {
  description = "Who may publish events, like serviceAccount:till@acme-data.iam.gserviceaccount.com."
  type        = set(string)
}

variable "readers" {
  description = "Who may read releases."
  type        = set(string)
}

variable "operators" {
  description = "Who may read dead letters (positions, columns and reasons, never content)."
  type        = set(string)
}

variable "ack_deadline" {
  description = "Seconds until an unacknowledged message comes back. Messages are acknowledged after the checkpoint: keep it well above engine.checkpoint_every. Readers extend it while they hold a message, and wait this long after a start."
  type        = number
  default     = 60

  validation {
    condition     = var.ack_deadline >= 10 && var.ack_deadline <= 600
    error_message = "Pub/Sub takes 10 to 600 seconds."
  }
}
