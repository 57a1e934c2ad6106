"""Train a Keras model by tf.data; save it and the data's state by tf.train.Checkpoint."""

import json
import sys

import tensorflow as tf

import tensorlake as tl
from tests.extras.killed import EPOCHS, EVERY, READ, Steps

if __name__ == "__main__":
    url, folder = sys.argv[1:]
    data = tl.open(url).tensorflow(**READ)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.Adam()
    step, state = tf.Variable(0), tf.Variable("")
    model.build((None, 3))
    optimizer.build(model.trainable_variables)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step, state=state)
    manager = tf.train.CheckpointManager(checkpoint, f"{folder}/checkpoints", max_to_keep=1)
    if manager.restore_or_initialize():
        data.load_state_dict(json.loads(state.numpy()))
    steps = Steps(folder)

    @tf.function
    def train_step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x)))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    for _ in range(data.loader.epoch, EPOCHS):
        for batch in data:
            train_step(batch["x"])
            step.assign_add(1)
            if int(step) % EVERY == 0:
                state.assign(json.dumps(data.state_dict()))
                manager.save()
            steps.note(batch["_row"].numpy().tolist())
