import { clone, type DescMessage, getOption, type JsonValue, type MessageShape, toJson } from '@bufbuild/protobuf';
import { type ReflectMessage, reflect } from '@bufbuild/protobuf/reflect';
import { csi_secret } from './gen/csi/v1/csi_pb.ts';

/** A copy of a message without the fields that are marked as secret, at any depth. */
export function loggable<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): JsonValue {
  const copy = clone(schema, message);
  dropSecrets(reflect(schema, copy));
  return toJson(schema, copy);
}

function dropSecrets(message: ReflectMessage): void {
  for (const field of message.fields) {
    if (!message.isSet(field)) continue;
    if (getOption(field, csi_secret)) message.clear(field);
    else if (field.fieldKind === 'message') dropSecrets(message.get(field));
    else if (field.fieldKind === 'list' && field.listKind === 'message') {
      for (const item of message.get(field)) dropSecrets(item as ReflectMessage);
    } else if (field.fieldKind === 'map' && field.mapKind === 'message') {
      for (const item of message.get(field).values()) dropSecrets(item as ReflectMessage);
    }
  }
}
